"""Backpropagation through time derived by hand: functions on tensors, in one autograd.Function.

Rows are packed (see ``plan.py``): ``sizes[t]`` sequences are alive at step t, longest first. A
:class:`Rule` is the pair of functions of one cell,

    forward(cell, u, sizes, state)                        -> y, final state, tape
    backward(cell, sizes, state, y, tape, dy, d_final)    -> du, d_state, {weight: gradient}

where u = prepare(x) may be overwritten, and tape is what the backward needs besides y. The product
with the input, which does not wait, is the same for every rule and is handled once. Where more
than biases stands between the product and u, a rule brings a second pair,

    prepare(cell, x)                    -> u, kept
    prepare_backward(cell, kept, du)    -> gradient of the product, {weight: gradient}

of which the second may overwrite du.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from companion.cells.base import Cell, State, autocasting, bind, flat_state
from companion.cells.clockwork import ClockworkRNNCell
from companion.cells.gru import GRUCell
from companion.cells.indrnn import IndRNNCell
from companion.cells.lstm import LSTMCell
from companion.cells.sru import SRUCell
from companion.cells.vanilla import RNNCell
from companion.run import bptt_clockwork, bptt_gru, bptt_lstm
from companion.run import bptt_elementwise as elementwise
from companion.run import bptt_lstm_options as options
from companion.run.loop import loop
from companion.run.packed import add_last, last, previous
from companion.run.products import adder, is_batched, outer, product, tanh_into
from companion.run.tracing import is_traced

# ---------------------------------------------------------------- vanilla


def vanilla_forward(cell: RNNCell, u: Tensor, sizes: list[int], h0: Tensor) -> Any:
    """h_t = φ(u_t + W_hh h_{t-1}), written over u."""
    tanh = cell.nonlinearity == "tanh"
    hs, add = u.split(sizes), adder(cell.weight_hh, sizes[0])
    for h_t, h in zip(hs, previous(h0, hs, sizes), strict=True):
        add(h_t, h)
        tanh_into(h_t, h_t) if tanh else h_t.relu_()
    return u, (last(h0, hs, sizes),), ()


def vanilla_backward(
    cell: RNNCell,
    sizes: list[int],
    state: Sequence[Tensor],
    y: Tensor,
    tape: Sequence[Tensor],
    dy: Tensor,
    d_final: Sequence[Tensor],
) -> Any:
    """δ_t = φ'(a_t) ⊙ (∂L_t/∂h_t + W_hhᵀ δ_{t+1}) = ∂L/∂u_t;  ∂L/∂W_hh = Σ_t δ_t h_{t-1}ᵀ."""
    (h0,), delta = state, dy.clone()
    hs, deltas = y.split(sizes), delta.split(sizes)
    dh0 = add_last(deltas, d_final[0], sizes)
    tanh = cell.nonlinearity == "tanh"
    slope = 1 - y * y if tanh else y <= 0  # of a relu: where nothing passes, not even inf
    add = adder(cell.weight_hh.t().contiguous(), sizes[0])
    steps = zip(deltas, slope.split(sizes), previous(dh0, deltas, sizes), strict=True)
    for delta_t, slope_t, before in reversed(list(steps)):
        add(before, delta_t.mul_(slope_t) if tanh else delta_t.masked_fill_(slope_t, 0))
    return delta, (dh0,), {"weight_hh": outer(delta, torch.cat(previous(h0, hs, sizes)))}


# ---------------------------------------------------------------- the Function


def prepare(cell: Any, x: Tensor) -> Any:
    """W_ih x_t + b_ih + b_hh."""
    bias = None if cell.bias_ih is None else cell.bias_ih + cell.bias_hh
    return product(x, cell.weight_ih, bias), ()


def one_bias(cell: Any, x: Tensor) -> Any:
    """W_ih x_t + b_ih: no second bias, or one that waits, as the GRU's does with b_hn."""
    return product(x, cell.weight_ih, cell.bias_ih), ()


def prepare_backward(cell: Any, kept: Sequence[Tensor], du: Tensor) -> Any:
    """Biases alone stand between the product and u."""
    return du, {}


@dataclass(frozen=True)
class Rule:
    """The derived forward and backward of one cell, and what they cover: options, states."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    covers: Callable[[Any], bool] = lambda cell: True
    prepare: Callable[..., Any] = prepare
    prepare_backward: Callable[..., Any] = prepare_backward
    starts: Callable[[Any, State], bool] = lambda cell, state: True


# Looked up by exact type, since a subclass may have another update; the first that covers the
# cell's options is taken.
RULES: dict[type[Cell], list[Rule]] = {
    RNNCell: [Rule(vanilla_forward, vanilla_backward)],
    LSTMCell: [
        Rule(bptt_lstm.forward, bptt_lstm.backward, bptt_lstm.covers),
        Rule(options.forward, options.backward, lambda cell: not cell.layer_norm),
        Rule(
            options.forward,
            options.backward,
            prepare=options.prepare_norm,
            prepare_backward=options.prepare_norm_backward,
        ),
    ],
    GRUCell: [Rule(bptt_gru.forward, bptt_gru.backward, prepare=one_bias)],
    IndRNNCell: [Rule(elementwise.indrnn_forward, elementwise.indrnn_backward, prepare=one_bias)],
    SRUCell: [
        Rule(
            elementwise.sru_forward,
            elementwise.sru_backward,
            prepare=elementwise.sru_prepare,
            prepare_backward=elementwise.sru_prepare_backward,
        )
    ],
    ClockworkRNNCell: [
        Rule(
            bptt_clockwork.forward,
            bptt_clockwork.backward,
            prepare=one_bias,
            starts=bptt_clockwork.starts,
        )
    ],
}


def rule_of(cell: Cell) -> Rule | None:
    """The rule that covers this cell."""
    return next((rule for rule in RULES.get(type(cell), []) if rule.covers(cell)), None)


# The rules record no graph; without its stop at autograd an operator costs a tenth less, which
# shows where the tensors are small.
below_autograd = getattr(torch._C, "_AutoDispatchBelowADInplaceOrView", contextlib.nullcontext)


class BPTT(torch.autograd.Function):
    """One call for the whole sequence; ``cell`` carries options, every tensor is an argument."""

    @staticmethod
    def forward(
        ctx: Any,
        cell: Cell,
        names: tuple[str, ...],
        sizes: list[int],
        n_state: int,
        x: Tensor,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        state, weights = tensors[:n_state], dict(zip(names, tensors[n_state:], strict=True))
        bound = cast(Any, bind(cell, weights))
        rule = cast(Rule, rule_of(cell))
        with below_autograd():
            u, kept = rule.prepare(bound, x)
            y, final, tape = rule.forward(bound, u, sizes, *state)
        ctx.save_for_backward(x, *tensors, *kept, y, *tape)
        ctx.cell, ctx.names, ctx.sizes, ctx.n_state = cell, names, sizes, n_state
        ctx.n_kept, ctx.device = len(kept), x.device.type
        # a caller may change what it gets: no output is a view, and the tape keeps its own y
        return y.clone(), *(s.clone() for s in final)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        if not autocasting(ctx.device):
            return _gradients(ctx, grads)
        with torch.autocast(ctx.device, enabled=False):  # it was off in the forward
            return _gradients(ctx, grads)


def _gradients(ctx: Any, grads: Sequence[Tensor]) -> tuple[Any, ...]:
    """The derived backward, or autograd's where a graph of it or a batch is asked for."""
    n, m = ctx.n_state, ctx.n_state + len(ctx.names)
    x, *rest = ctx.saved_tensors
    none = (None, None, None, None)
    # create_graph=True asks for a backward that is differentiable; batched gradients (vmap,
    # jacobian(vectorize=True)) for one without operations in place
    if torch.is_grad_enabled() or any(map(is_batched, grads)):
        with torch.enable_grad():
            return *none, *_by_autograd(ctx, [x, *rest[:m]], grads)
    state, weights = rest[:n], dict(zip(ctx.names, rest[n:m], strict=True))
    bound, (dy, *d_final) = cast(Any, bind(ctx.cell, weights)), grads
    p, rule = m + ctx.n_kept, cast(Rule, rule_of(ctx.cell))
    kept, y, tape = rest[m:p], rest[p], rest[p + 1 :]
    with below_autograd():
        du, d_state, d_weight = rule.backward(bound, ctx.sizes, state, y, tape, dy, d_final)
        d_weight["bias_ih"] = db = du.sum(0)
        d_product, d_between = rule.prepare_backward(bound, kept, du)
    d_weight |= {"weight_ih": outer(d_product, x), **d_between}
    d_weight.setdefault("bias_hh", db.clone())  # a caller may change either
    need = ctx.needs_input_grad[4]
    dx = product(d_product, bound.weight_ih.t().contiguous()) if need else None
    d_weights = (None if weights[w] is None else d_weight[w] for w in ctx.names)
    if dx is not None and "x" in d_weight:  # a way to the input beside the product
        dx += d_weight["x"]
    return *none, dx, *d_state, *d_weights


def _by_autograd(ctx: Any, inputs: list[Any], grads: Sequence[Tensor]) -> list[Tensor | None]:
    """The same gradients by autograd through the plain loop, so that they have gradients again."""
    # x may depend on h_0, or both on a weight: aliases cut them apart
    alias: list[Any] = [None if t is None else t.view_as(t) for t in inputs]
    x, *tensors = alias
    state, weights = tensors[: ctx.n_state], tensors[ctx.n_state :]
    bound = bind(ctx.cell, dict(zip(ctx.names, weights, strict=True)))
    y, final = loop(bound, x, ctx.sizes, tuple(state) if ctx.n_state > 1 else state[0])
    outputs = [y, *flat_state(final)]
    need = [k for k, t in enumerate(alias) if t is not None and t.requires_grad]
    live = [k for k, o in enumerate(outputs) if o.requires_grad]
    found = torch.autograd.grad(
        [outputs[k] for k in live],
        [alias[k] for k in need],
        [grads[k] for k in live],
        create_graph=True,
        allow_unused=True,
    )
    result: list[Tensor | None] = [None] * len(inputs)
    for k, g in zip(need, found, strict=True):
        result[k] = g
    return result


def refuses(cell: Cell, x: Tensor) -> str | None:
    """Why this form cannot honor a call, or ``None``."""
    if rule_of(cell) is None:
        return f"no backward is derived for {type(cell).__name__} with these options"
    if cell._mask is not None:
        return "recurrent dropout is on"
    if x.is_complex():
        return "the backward is derived for real numbers"
    if is_traced():
        return "tracing records the loop instead"
    if torch._C._are_functorch_transforms_active():
        return "a function transform (vmap, grad, jvp …) is active"
    if torch.autograd.forward_ad._current_level >= 0:
        return "forward-mode differentiation is active"
    if autocasting(x.device.type):
        return "autocast is on"
    return None


def bptt(cell: Cell, x: Tensor, sizes: list[int], state: State) -> tuple[Tensor, State]:
    """Run a cell with its derived backward; arguments and returns of :func:`loop`."""
    if not sizes or not cast(Rule, rule_of(cell)).starts(cell, state):
        return loop(cell, x, sizes, state)
    names, parts = cell.weight_names(), flat_state(state)
    weights = [getattr(cell, name) for name in names]
    plain = bind(cell, dict.fromkeys(names))  # no tensor hides in ctx
    y, *final = BPTT.apply(plain, names, sizes, len(parts), x, *parts, *weights)
    return y, tuple(final) if isinstance(state, tuple) else final[0]
