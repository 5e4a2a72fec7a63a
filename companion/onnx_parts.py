"""What ONNX runs along time: its own RNN, LSTM and GRU, and for every other cell its Scan.

``torch.export`` unrolls a Python loop, which fixes T. Here each recurrence of a model becomes one
node a layer before the exporter sees it. A Scan is made in two passes, since the exporter writes
no graph within a graph: first a placeholder that only knows its shapes, then the update of the
cell, exported by itself, is put into its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from companion.cells import Cell, GRUCell, LSTMCell, RNNCell, State, flat_state
from companion.cells.base import flat_sizes
from companion.exchange import from_torch
from companion.gates import convert_gates
from companion.layers import Recurrence

OPSET = 18  # of ONNX' operators; runtimes from 2023 on know it
DOMAIN = "companion"  # of the placeholders; none is left in a file
# what a cell computes from its weights alone, complex numbers among it, which ONNX does not have
FROZEN = ("factors", "discrete")


class OnnxRecurrence(nn.Module):
    """A recurrence as the exporter is to see it: called the same, but with T left open.

    Args:
        layer: the recurrence, in evaluation mode.
        updates: where the updates that need a Scan are put, by the number in their placeholders.
    """

    def __init__(self, layer: Recurrence, updates: list[Update]) -> None:
        super().__init__()
        self.layer, self.batch_first = layer, layer.batch_first
        self.directions, self.output_size = layer.directions, layer.output_size
        kinds = range(layer.num_layers)
        self.kernels = nn.ModuleList(_kernel(layer, k, updates) for k in kinds)

    def initial_state(self, batch_size: int) -> State:
        """That of the layer."""
        return self.layer.initial_state(batch_size)

    def forward(
        self, x: Tensor, state: State | None = None, *, lengths: Any = None, reset: Any = None
    ) -> tuple[Tensor, State]:
        """The whole sequence, as :meth:`companion.Recurrence.forward`."""
        if reset is not None:
            raise ValueError("reset: not in an ONNX file; begin anew with the initial state")
        if x.dim() != 3:
            raise ValueError(f"expected an input of 3 dimensions, got {tuple(x.shape)}")
        x = x.transpose(0, 1) if self.batch_first else x
        if state is None:
            state = self.layer.initial_state(x.shape[1])
        parts, n = flat_state(state), self.directions
        after = []
        for k, kernel in enumerate(self.kernels):
            x, s = kernel(x, [p[k * n : (k + 1) * n] for p in parts], lengths)
            after.append(s)
        ends = tuple(torch.cat(p) for p in zip(*after, strict=True))
        state = ends if isinstance(state, tuple) else ends[0]
        return (x.transpose(0, 1) if self.batch_first else x), state


class _Operator(nn.Module):
    """One layer, both directions, of an operator RNN, LSTM or GRU.

    ONNX stacks the gates in its own order, the directions in front, and both biases in one
    tensor. Its coupled gates are i = 1 − σ(aᶠ) = σ(−aᶠ): the input gate has the forget gate's
    weights, negated.
    """

    def __init__(self, layer: Recurrence, k: int) -> None:
        super().__init__()
        self.hidden_size, self.directions = layer.hidden_size, layer.directions
        cells = [layer.cell(k, d) for d in range(layer.directions)]
        cell = cells[0]
        self.attributes: dict[str, Any] = {"hidden_size": layer.hidden_size}
        if len(cells) == 2:
            self.attributes["direction"] = "bidirectional"
        self.operator = type(cell).__name__.removesuffix("Cell")
        if isinstance(cell, RNNCell):
            self.attributes["activations"] = [cell.nonlinearity.capitalize()] * len(cells)
        if isinstance(cell, GRUCell):
            self.attributes["linear_before_reset"] = int(cell.reset_after)
        for name, values in zip("WRBP", zip(*map(self._weights, cells), strict=True), strict=True):
            value = None if values[0] is None else torch.stack(values).contiguous()
            self.register_buffer(name, value)

    def _weights(self, cell: Any) -> tuple[Tensor | None, ...]:
        """W, R, B and the peepholes of one direction, in ONNX' order."""

        def ordered(w: Tensor | None) -> Tensor | None:
            if w is None:
                return None
            w = w.detach()
            if getattr(cell, "coupled", False):
                w = torch.cat([-w[: cell.hidden_size], w])
            if self.operator == "RNN":
                return w
            return convert_gates(w, self.operator.lower(), "torch", "onnx")

        biases = [ordered(b) for b in (cell.bias_ih, cell.bias_hh)]
        joined = None if biases[0] is None else torch.cat(cast(list[Tensor], biases))
        peepholes = None
        if getattr(cell, "peephole", False):
            *p_if, p_o = cell.weight_ch.detach()
            p_i, p_f = p_if if len(p_if) == 2 else (-p_if[0], p_if[0])
            peepholes = torch.cat([p_i, p_o, p_f])
        return ordered(cell.weight_ih), ordered(cell.weight_hh), joined, peepholes

    def forward(
        self, x: Tensor, state: list[Tensor], lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """(T, B, D) and states (directions, B, H) give (T, B, directions·H) and the last ones."""
        T, B, n, H = *x.shape[:2], self.directions, self.hidden_size
        short = None if lengths is None else lengths.to(torch.int32)
        inputs: list[Any] = [x, self.W, self.R, self.B, short, *state]
        if self.P is not None:
            inputs.append(self.P)
        y, *after = torch.onnx.ops.symbolic_multi_out(
            self.operator,
            inputs,
            self.attributes,
            dtypes=[x.dtype] * (1 + len(state)),
            shapes=[(T, n, B, H), *[(n, B, H)] * len(state)],
            version=OPSET,
        )
        if lengths is not None:  # of a row of length 0 the operator gives 0
            some = (lengths > 0)[:, None]
            after = [torch.where(some, a, s) for a, s in zip(after, state, strict=True)]
        return y.permute(0, 2, 1, 3).flatten(2), tuple(after)


class _Scan(nn.Module):
    """One layer, both directions, of any cell: what must wait goes into a Scan."""

    def __init__(self, layer: Recurrence, k: int, updates: list[Update]) -> None:
        super().__init__()
        self.layer, self.k, self.first = layer, k, len(updates)
        updates.extend(Update(layer, k * layer.directions + d) for d in range(layer.directions))

    def forward(
        self, x: Tensor, state: list[Tensor], lengths: Tensor | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """As of an operator."""
        outputs, ends = [], []
        for d in range(self.layer.directions):
            cell = self.layer.cell(self.k, d)
            u, s = cell.prepare(x), [p[d] for p in state]
            y, *after = torch.onnx.ops.symbolic_multi_out(
                f"{DOMAIN}::Scan",
                [u, *s] if lengths is None else [u, *s, lengths],
                {"update": self.first + d, "backward": d, "states": len(s)},
                dtypes=[x.dtype] + [p.dtype for p in s],
                shapes=[(*x.shape[:2], cell.output_size), *(p.shape for p in s)],
                version=1,
            )
            outputs.append(y)
            ends.append(after)
        last = tuple(torch.stack(parts) for parts in zip(*ends, strict=True))
        return torch.cat(outputs, 2), last


class Update(nn.Module):
    """The body of a Scan: one update of cell k, and, of a row that has ended, none.

    Of rows of different lengths it is also given the step that it is at, ``t``, and ``lengths``.
    """

    def __init__(self, layer: Recurrence, k: int) -> None:
        super().__init__()
        self.layer, self.k, self.ragged = layer, k, False

    def example(self, B: int) -> tuple[Tensor, tuple[Tensor, ...]]:
        """A prepared input and a state of B rows."""
        cell = self.layer._lend(self.k)
        like = next(self.layer.parameters())
        u = cell.prepare(like.new_zeros(B, cell.input_size))
        return u.detach(), flat_state(cell.initial_state(B))

    def forward(self, u_t: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """u_t (B, G), the state, and ``t`` and ``lengths``, give y_t (B, H) and the next state."""
        own = self.layer._lend(self.k)
        cell, sizes = self.layer._zoned(own), own.state_size
        n = len(flat_sizes(sizes))
        state = rest[:n]
        y, after = cell.update(u_t, state if isinstance(sizes, tuple) else state[0])
        if not self.ragged:
            return y, *flat_state(after)
        t, lengths = rest[n:]
        alive = (t < lengths)[:, None]
        kept = (torch.where(alive, a, s) for a, s in zip(flat_state(after), state, strict=True))
        return y.masked_fill(~alive, 0.0), *kept


def _kernel(layer: Recurrence, k: int, updates: list[Update]) -> nn.Module:
    cell = layer._cells[0]
    exact = type(cell) in (RNNCell, LSTMCell, GRUCell) and not layer.zoneout
    if exact and isinstance(cell, LSTMCell):
        exact = cell.forget_gate and not (cell.layer_norm or cell.proj_size)
    return _Operator(layer, k) if exact else _Scan(layer, k, updates)


def freeze(layer: Recurrence) -> None:
    """Let the layer's cells take what depends on weights alone from tensors computed now."""
    lend, known = layer._lend, {}
    for k in range(len(layer._cells)):
        cell = lend(k)
        with torch.no_grad():
            known[k] = {n: getattr(cell, n)() for n in FROZEN if hasattr(cell, n)}

    def frozen(k: int, *args: Any) -> Cell:
        cell = lend(k, *args)
        for name, value in known[k].items():
            cell.__dict__[name] = lambda value=value: value
        return cell

    layer.__dict__["_lend"] = frozen


def ours(module: Any) -> Any:
    """The module with recurrences of this package for those of torch.nn, which fix T."""
    if isinstance(module, nn.RNNBase):
        return from_torch(module)
    return _each(module, ours)


def prepared(model: nn.Module) -> tuple[nn.Module, list[Update]]:
    """The model with every recurrence replaced, and the updates its placeholders stand for."""
    updates: list[Update] = []
    return _replaced(model, updates), updates


def _replaced(module: nn.Module, updates: list[Update]) -> nn.Module:
    if isinstance(module, OnnxRecurrence):  # of a module that stands in two places
        return module
    if isinstance(module, Recurrence):
        return OnnxRecurrence(module, updates)
    return _each(module, lambda child: _replaced(child, updates))


def _each(module: nn.Module, change: Callable[[nn.Module], nn.Module]) -> nn.Module:
    """Change the modules within one; what stands in two places is met in both."""
    for name, child in list(module._modules.items()):
        if child is not None and (new := change(child)) is not child:
            setattr(module, name, new)
    return module
