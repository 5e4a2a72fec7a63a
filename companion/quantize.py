"""Recurrences and products in eight bits, on the CPU."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from companion.cells import Cell, GRUCell, LSTMCell, State, flat_state, map_state
from companion.exchange import from_torch, to_torch
from companion.layers import Recurrence
from companion.run.plan import check_lengths

__all__ = ["QuantizedLinear", "QuantizedRecurrence", "quantized"]

# what torch can compute in int8: layers of such cells, and its own
OURS: tuple[type[nn.Module], ...] = (LSTMCell, GRUCell)
TORCHS: tuple[type[nn.Module], ...] = (nn.LSTM, nn.GRU)
RECURRENT = (Cell, nn.RNNBase, nn.RNNCellBase)


def quantized(model: nn.Module) -> nn.Module:
    r"""A copy of a model that multiplies in 8 bits: its LSTMs, its GRUs, and its ``nn.Linear``.

    .. math:: q = \mathrm{round}(w / s), \qquad s = \max |w| / 127

    "Dynamic": the weights are rounded once, the inputs of each product when they come. Gates and
    states stay in float32. Nothing is trained or calibrated.

    ``torch.ao.quantization.quantize_dynamic`` does the work. It converts what is *in* a module,
    so that a bare ``torch.nn.GRU`` comes back from it as it was, without a word; here it is
    converted as well. torch has marked it as deprecated in favor of torchao, which has no
    recurrent layers yet.

    Args:
        model: a recurrent layer of this package or of torch.nn, or a model made of such.

    Returns:
        The copy, in float32 and evaluation mode, on the CPU. Called as before, in batches and
        without ``reset``; it cannot be trained.

    Raises:
        TypeError: if it is no module.
        ValueError: if there is nothing to convert, or a recurrence for which torch has no such
            kernel. Of every architecture ``to_onnx(..., int8=True)`` stores the weights so.
        RuntimeError: if this torch cannot quantize.

    Example:
        >>> import companion
        >>> small = quantized(companion.GRU(3, 4))
        >>> small(torch.zeros(7, 2, 3))[0].shape
        torch.Size([7, 2, 4])
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a module, got {type(model).__name__}")
    quantize = _quantizer()
    for module in model.modules():
        part, known = module, TORCHS
        if isinstance(module, Recurrence):
            part, known = module._cells[0], OURS
        if isinstance(part, RECURRENT) and type(part) not in known:
            raise ValueError(
                "model: expected LSTMs and GRUs, for which torch has products in 8 bits, got "
                f"{type(part).__name__}; to_onnx(model, path, int8=True) stores the "
                "weights of any recurrent layer so"
            )
        if isinstance(module, nn.RNNBase) and module.proj_size:
            raise ValueError("model: torch has no proj_size in 8 bits")
    holder = nn.ModuleList([copy.deepcopy(model).cpu().float().eval()])
    _twins(holder, set())
    kinds = {nn.LSTM, nn.GRU, nn.Linear}
    if not any(type(module) in kinds for module in holder.modules()):
        raise ValueError(f"model: expected an LSTM, a GRU or a Linear, got {type(model).__name__}")
    with _quiet():
        return quantize(holder, kinds, dtype=torch.qint8)[0]


class QuantizedRecurrence(nn.Module):
    """An LSTM or a GRU in 8 bits, called as :class:`companion.Recurrence` is.

    Args:
        layer: the float one.
    """

    def __init__(self, layer: Recurrence) -> None:
        super().__init__()
        if layer.zoneout:
            raise ValueError("model: torch has no zoneout in 8 bits")
        if getattr(layer._cells[0], "proj_size", 0):
            raise ValueError("model: torch has no proj_size in 8 bits")
        self.input_size, self.hidden_size = layer.input_size, layer.hidden_size
        self.num_layers, self.directions = layer.num_layers, layer.directions
        self.output_size = layer.output_size
        self.batch_first, self.sizes = layer.batch_first, layer._cells[0].state_size
        self.layer = _twin(layer)

    def initial_state(self, batch_size: int) -> State:
        """Zeros, (L·directions, B, H) each."""
        lead = (self.num_layers * self.directions, batch_size)
        return cast(State, map_state(lambda n: torch.zeros(*lead, n), self.sizes))

    def step(self, x_t: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One time step: (B, D) and a state give (B, H) and the next state."""
        if self.directions == 2:
            raise ValueError("step: a bidirectional layer cannot run step by step")
        if x_t.dim() != 2:
            raise ValueError(f"x_t: expected (B, {self.input_size}), got {tuple(x_t.shape)}")
        y, state = self(x_t.unsqueeze(1 if self.batch_first else 0), state)
        return y.squeeze(1 if self.batch_first else 0), state

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        reset: Tensor | None = None,
        form: str | None = None,
    ) -> tuple[Tensor, State]:
        """The whole sequence, as :meth:`companion.Recurrence.forward`; neither reset nor form."""
        for name, given in (("reset", reset), ("form", form)):
            if given is not None:
                raise ValueError(f"{name}: expected None, since torch runs this in 8 bits")
        time = 1 if self.batch_first else 0
        if not isinstance(x, Tensor):
            raise TypeError(f"x: expected a tensor, got {type(x).__name__}")
        if x.dim() != 3 or x.shape[2] != self.input_size:
            lead = "(B, T" if time else "(T, B"
            raise ValueError(f"x: expected {lead}, {self.input_size}), got {tuple(x.shape)}")
        B, T = x.shape[1 - time], x.shape[time]
        known = check_lengths(lengths, B, T, True)
        if state is None:
            state = self.initial_state(B)
        with _quiet(), torch.no_grad():
            if known is None:
                return self.layer(x, state)
            short = known.clamp(min=1)  # torch packs no empty row
            packed = pack_padded_sequence(x, short, bool(time), enforce_sorted=False)
            packed, after = self.layer(packed, state)
            y, _ = pad_packed_sequence(packed, bool(time), total_length=T)
        some = known > 0
        ended = (torch.where(some[:, None], a, s) for a, s in _pairs(after, state))
        y = y.masked_fill(~some.view((B, 1, 1) if time else (1, B, 1)), 0.0)
        return y, tuple(ended) if isinstance(state, tuple) else next(ended)


def _pairs(after: State, before: State) -> Iterator[tuple[Tensor, Tensor]]:
    return zip(flat_state(after), flat_state(before), strict=True)


class QuantizedLinear(nn.Module):
    """A product in 8 bits; ``weight`` and ``bias`` are read as those of the float one.

    Args:
        layer: the float one.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.layer: Any = layer

    @property
    def weight(self) -> Tensor:
        """(out, in), as rounded."""
        return cast(Tensor, self.layer.weight().dequantize())

    @property
    def bias(self) -> Tensor | None:
        """(out,), which is not rounded."""
        return cast("Tensor | None", self.layer.bias())

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) gives (…, out)."""
        return cast(Tensor, self.layer(x))


def _twins(module: nn.Module, met: set[nn.Module]) -> None:
    """Put what torch can convert in the place of what it cannot, within a module.

    torch converts what stands in two places in the first of them alone: the second is a copy.
    """
    for name, child in list(module._modules.items()):
        if child is None:
            continue
        again = child in met
        met.add(child)
        if again:
            child = copy.deepcopy(child)
        if isinstance(child, nn.RNNBase) and not child.bias:  # torch's kernels want biases
            child = from_torch(child)
        if isinstance(child, Recurrence):
            child = QuantizedRecurrence(child)
        elif type(child) is nn.Linear:
            child = QuantizedLinear(child)
        elif type(child) not in (QuantizedRecurrence, QuantizedLinear):
            _twins(child, met)
        setattr(module, name, child)


def _twin(layer: Recurrence) -> nn.Module:
    """The layer of torch.nn with the weights of any LSTM or GRU of ours, by whatever name."""
    from companion.torch_names import GRU, LSTM

    kind = LSTM if isinstance(layer._cells[0], LSTMCell) else GRU
    given = {n: getattr(layer, n) for n in ("batch_first", "bidirectional")}
    other = kind(layer.input_size, layer.hidden_size, layer.num_layers, **given, **layer.options)
    for name, w in other.named_parameters():
        if layer.bias or not name.startswith("bias"):
            w.data.copy_(getattr(layer, name).detach())
        else:
            w.data.zero_()  # torch's kernels want biases
    return to_torch(other.eval())


def _quantizer() -> Any:
    try:
        with _quiet():
            from torch.ao.quantization import quantize_dynamic
    except ImportError as error:
        raise RuntimeError(
            "quantized: this torch has no torch.ao.quantization; see torchao, or write the "
            "weights with to_onnx(model, path, int8=True)"
        ) from error
    if torch.backends.quantized.engine in (None, "none"):
        raise RuntimeError("quantized: this build of torch has no products in 8 bits")
    return quantize_dynamic


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch says of its own calls: that what they use will go."""
    with warnings.catch_warnings():
        for gone in ("torch.ao.quantization is deprecated", "torch.quantize_per_tensor"):
            warnings.filterwarnings("ignore", gone)
        yield
