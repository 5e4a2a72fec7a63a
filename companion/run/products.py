"""Matrix products at the speed of oneDNN where it pays: the same values, in less time.

On AMD processors MKL's float32 product, which ``linear``, ``mm`` and ``addmm`` call, runs at half
the speed of oneDNN's. torch reaches oneDNN through private operators; we test for them and keep
the plain product everywhere else. These functions are for code that records no graph.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


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
    return (
        ONEDNN
        and multiply_adds >= WORTH
        and x.dtype == torch.float32
        and x.device.type == "cpu"
        and not torch.is_grad_enabled()
        and type(x) in (Tensor, torch.nn.Parameter)  # not fake, not a subclass
    )


def product(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b: (N, D), (G, D), (G,) -> (N, G)."""
    if _pays(x, x.shape[0] * w.numel()):
        dense = None if bias is None else bias.contiguous()  # the operator ignores its stride
        return torch.ops.mkldnn._linear_pointwise(x, w, dense, "none", [], "")
    return F.linear(x, w, bias)


def adder(w: Tensor, rows: int) -> Callable[[Tensor, Tensor], Tensor]:
    """The function ``(out, x) -> out += x Wᵀ``, in place, chosen once for a whole sequence."""
    if _pays(w, rows * w.numel()):
        packed = torch.ops.mkldnn._reorder_linear_weight(w)
        op = torch.ops.mkldnn._linear_pointwise
        return lambda out, x: out.add_(op(x, packed, None, "none", [], ""))
    wt = w.t()
    return lambda out, x: out.addmm_(x, wt)


def outer(k: Tensor, x: Tensor) -> Tensor:
    """kᵀ x, the sum over rows of outer products: (N, G), (N, D) -> (G, D)."""
    if _pays(x, k.numel() * x.shape[1]):
        return torch.ops.mkldnn._linear_pointwise(x.t(), k.t(), None, "none", [], "").t()
    return k.t() @ x
