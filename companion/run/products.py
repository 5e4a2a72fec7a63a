"""Matrix products at the speed of oneDNN where it pays: the same values, in less time.

On AMD processors MKL's float32 product, which ``linear``, ``mm`` and ``addmm`` call, runs at half
the speed of oneDNN's. torch reaches oneDNN through private operators; we test for them and keep
the plain product everywhere else. These functions are for code that records no graph, but for
:class:`Products`, under which other code records one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from companion.cells.base import autocasting
from companion.run.tracing import is_old_batched


def _feature_test() -> bool:
    try:
        op, pack = torch.ops.mkldnn._linear_pointwise, torch.ops.mkldnn._reorder_linear_weight
        x, w = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3)
        plain = x @ w.t()
        return torch.backends.mkldnn.is_available() and all(
            torch.allclose(op(x, v, None, "none", [], ""), plain) for v in (w, pack(w))
        )
    except Exception:  # noqa: BLE001  # a private operator may be absent, or refuse in any way
        return False


ONEDNN = _feature_test()
WORTH = 2e6  # multiply-adds from which the operator's overhead of some 12 µs is repaid


def _pays(x: Tensor, multiply_adds: int) -> bool:
    return not torch.is_grad_enabled() and _faster(x, multiply_adds)


def _faster(x: Tensor, multiply_adds: int) -> bool:
    return (
        ONEDNN
        and multiply_adds >= WORTH
        and x.dtype == torch.float32
        and x.device.type == "cpu"
        and type(x) in (Tensor, torch.nn.Parameter)  # not fake, not a subclass
    )


def product(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b: (N, D), (G, D), (G,) -> (N, G)."""
    if _pays(x, x.shape[0] * w.numel()):
        w = w.contiguous()  # a parametrized weight may overlap itself, which oneDNN refuses
        dense = None if bias is None else bias.contiguous()  # the operator ignores its stride
        # rows with gaps would make it many times slower
        return torch.ops.mkldnn._linear_pointwise(x.contiguous(), w, dense, "none", [], "")
    return F.linear(x, w, bias)


def adder(w: Tensor, rows: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The function ``(out, x) -> out += x Wᵀ``, in place, chosen once for a whole sequence."""
    if _pays(w, rows * w.numel()):
        packed = torch.ops.mkldnn._reorder_linear_weight(w.contiguous())
        op = torch.ops.mkldnn._linear_pointwise
        return lambda out, x: out.add_(op(x.contiguous(), packed, None, "none", [], ""))
    wt = w.t()
    return lambda out, x: out.addmm_(x, wt)


def outer(k: Tensor, x: Tensor) -> Tensor:
    """kᵀ x, the sum over rows of outer products: (N, G), (N, D) -> (G, D)."""
    if _pays(x, k.numel() * x.shape[1]):
        op = torch.ops.mkldnn._linear_pointwise
        return op(x.contiguous().t(), k.contiguous().t(), None, "none", [], "").t().contiguous()
    return k.t() @ x


def wide_zeros(like: Tensor) -> Tensor:
    """Zeros for a sum over time: float32 where ``like`` is half or bfloat16, which stagnate."""
    half = like.dtype in (torch.float16, torch.bfloat16)
    return torch.zeros_like(like, dtype=torch.float32 if half else like.dtype)


class _Linear(torch.autograd.Function):
    """``linear`` by these products, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, w)
        return product(x, w, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (d,), (x, w), needs = grads, ctx.saved_tensors, ctx.needs_input_grad
        if not torch.is_grad_enabled() and not is_batched(d):
            d = d.contiguous()  # the operator is slow on rows with gaps
            dx = product(d, w.t().contiguous()) if needs[0] else None
            dw = outer(d, x) if needs[1] else None
        else:
            dx, dw = d @ w, d.t() @ x
        return dx, dw, d.sum(0) if needs[2] else None


def is_batched(t: Tensor) -> bool:
    """Whether vmap, the present or the old one, hides a batch in this tensor."""
    return bool(torch._C._functorch.is_batchedtensor(t) or is_old_batched(t))


class Products(TorchFunctionMode):
    """Within, ``torch.nn.functional.linear`` of matrices runs by the products of this file."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Every call of torch passes here."""
        if func is F.linear and not kwargs and _suits(*args[:2]):
            return _Linear.apply(*args, *(None,) * (3 - len(args)))
        return func(*args, **(kwargs or {}))


def _suits(x: Tensor, w: Tensor) -> bool:
    return (
        x.dim() == w.dim() == 2  # a vector of weights is allowed, too
        and x.is_contiguous()
        and w.dtype == x.dtype
        and _faster(x, x.shape[0] * w.numel())
        and not autocasting("cpu")
        and not torch._C._are_functorch_transforms_active()
        and torch.autograd.forward_ad._current_level < 0
    )


SLEEF = 4096  # elements from which five cheap passes beat the one of torch's vectorized tanh


def tanh_into(out: Tensor, a: Tensor) -> Tensor:
    """tanh a, written to ``out``, which may be ``a``; the faster of two ways on a CPU.

    tanh a = m / (m + 2) with m = exp(2a) − 1, which keeps its relative precision near 0, unlike
    2 σ(2a) − 1. Beyond a = 20 the result is 1 and m may overflow.
    """
    plain = a.numel() < SLEEF or a.dtype not in (torch.float32, torch.float64)
    if plain or a.device.type != "cpu":
        return torch.tanh(a, out=out)
    torch.add(a, a, out=out).clamp_(max=40).expm1_()
    return out.div_(out + 2)
