"""The sequence layer around any cell: stacking, directions, dropout, layouts, state."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from companion.cells import Cell, State, bind, find, flat_state, map_state
from companion.cells.base import (
    check_state,
    check_tensor,
    flat_sizes,
    stored_weight,
)
from companion.cells.noise import Zoneout, check_probability, zoneout_rates
from companion.checks import check_flag, check_size
from companion.run import Plan, plan_packed, plan_ragged, plan_whole, run
from companion.run.plan import check_lengths, check_reset


class Recurrence(nn.Module):
    r"""A recurrent cell run along time, in layers and directions.

    .. math::

        y_t, s_t = \mathrm{step}(x_t, s_{t-1}), \qquad t = 1, \dots, T

    Layer :math:`k+1` reads the outputs of layer :math:`k`. A bidirectional layer runs a second
    cell from the last valid step to the first and concatenates both outputs. The weights of the
    cells are parameters of this module, named as in torch: ``weight_hh_l0``,
    ``weight_ih_l1_reverse``.

    Args:
        cell: name of an architecture (a key of ``companion.ARCHITECTURES``) or a subclass of
            :class:`companion.Cell`.
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the cells have biases.
        batch_first: whether inputs and outputs are (B, T, ...) rather than (T, B, ...). The state
            is (L·directions, B, ...) in both.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        recurrent_dropout: probability of dropping a unit of :math:`h_{t-1}` where the recurrent
            weights read it, while training: one mask for all steps of a sequence and all gates
            ("locked"; Gal and Ghahramani 2016).
        zoneout: probability that a unit keeps its state, drawn anew at each step while training
            and replaced by its mean in evaluation (Krueger et al. 2017); a number, or one for
            each tensor of the state.
        options: further keyword arguments of the cell.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Example:
        >>> import torch
        >>> layer = Recurrence("rnn", input_size=3, hidden_size=4, num_layers=2)
        >>> y, state = layer(torch.zeros(2, 7, 3), lengths=[7, 5])
        >>> y.shape, state.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 4]))
    """

    # what error messages call the two arguments of forward
    _names = ("x", "state")
    _unprinted: tuple[str, ...] = ()  # options of the cell
    _batch_first = True  # the default, which a representation leaves out

    def __init__(
        self,
        cell: str | type[Cell],
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        recurrent_dropout: float = 0.0,
        zoneout: float | Sequence[float] = 0.0,
        **options: Any,
    ) -> None:
        super().__init__()
        check_size("num_layers", num_layers)
        check_probability("dropout", dropout)
        if dropout and num_layers == 1:
            warnings.warn(
                "dropout acts between layers: with num_layers=1 it has no effect",
                stacklevel=2 if type(self) is Recurrence else 3,
            )
        for name, flag in (
            ("bias", bias),
            ("batch_first", batch_first),
            ("bidirectional", bidirectional),
        ):
            check_flag(name, flag)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional = bidirectional
        self.recurrent_dropout = check_probability("recurrent_dropout", recurrent_dropout)
        self.directions = 2 if bidirectional else 1

        make = _maker(cell, options)
        self.options = dict(make.keywords)  # of the cell
        cells: list[Cell] = []
        width = input_size
        for layer in range(num_layers):
            for direction in range(self.directions):
                part = make(width, hidden_size, bias=bias, device=device, dtype=dtype)
                self._take(part, suffix(layer, direction))
                cells.append(part)
                if part.state_size != cells[0].state_size:
                    raise ValueError(
                        f"cell: expected states of one size in all layers, got "
                        f"{cells[0].state_size} in layer 0 and {part.state_size} in layer {layer}"
                    )
            width = self.directions * part.output_size
        self._cells = tuple(cells)  # in a tuple, so that they are not submodules
        self.zoneout = zoneout_rates(zoneout, cells[0])

    def _take(self, part: Cell, end: str) -> None:
        """Make a cell's weights, buffers and inner modules ours; the cell keeps its equations."""
        for name, w in part._parameters.items():
            if w is not None:
                self.register_parameter(name + end, w)
        for name, b in part._buffers.items():
            self.register_buffer(name + end, b, name not in part._non_persistent_buffers_set)
        for name, module in part._modules.items():
            self.add_module(name + end, module)
        part._absent = {name for name, w in part._parameters.items() if w is None}
        part._lent = part.weight_names()
        part._parameters.clear()
        part.__dict__["_buffers"] = dict.fromkeys(part._buffers)
        part.__dict__["_modules"] = dict.fromkeys(part._modules)

    def _lend(self, k: int, read: Callable[[nn.Module, str], Any] = getattr) -> Cell:
        """Cell k, bound to what is ours now; each weight is read once."""
        part, end = self._cells[k], suffix(*divmod(k, self.directions))
        lent = {n: None if n in part._absent else read(self, n + end) for n in part.weight_names()}
        lent |= {n: getattr(self, n + end) for n in (*part._buffers, *part._modules)}
        return bind(part, lent, self.training)

    def _run(
        self, cell: Cell, x: Tensor, sizes: list[int], state: State, form: str | None
    ) -> tuple[Tensor, State]:
        """One cell along packed rows, under the noise that was asked for."""
        S, masked = flat_state(state)[0].shape[0], self.training and self.recurrent_dropout
        cell.begin(S, x)
        if masked:
            ones = x.new_ones(S, flat_sizes(cell.state_size)[0])
            cell._mask = F.dropout(ones, self.recurrent_dropout)
        y, after = run(self._zoned(cell), x, sizes, state, form)
        if masked and not cell._masked:
            raise ValueError(
                "recurrent_dropout: expected a cell whose update reads its state through "
                f"self.recurrent(h), which {type(cell).__name__}.update does not"
            )
        _check_update(cell, y, after, x.shape[0], S, self._own())
        return y, after

    def _zoned(self, cell: Cell) -> Cell:
        return cast(Cell, Zoneout(cell, self.zoneout)) if self.zoneout else cell

    @property
    def output_size(self) -> int:
        """Number of output features, both directions together."""
        return self.directions * self._cells[0].output_size

    def cell(self, layer: int, direction: int = 0) -> Cell:
        """One cell, bound to this module's weights as they are now.

        Args:
            layer: 0 is the lowest.
            direction: 0 runs forward in time, 1 backward.

        Returns:
            A cell to call; it holds tensors, not parameters, and is meant for one use.

        Raises:
            IndexError: if there is no such layer or direction.
        """
        for name, value, count in (
            ("layer", layer, self.num_layers),
            ("direction", direction, self.directions),
        ):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name}: expected an int, got {value!r}")
            if not 0 <= value < count:
                raise IndexError(f"{name}: expected 0 to {count - 1}, got {value}")
        return self._lend(layer * self.directions + direction)

    def reset_parameters(self) -> None:
        """Draw all weights anew, in the order of torch; behind a parametrization, its original."""
        for k in range(len(self._cells)):
            self._lend(k, stored_weight).reset_parameters()

    def flatten_parameters(self) -> None:
        """Does nothing; it is here because code written for torch.nn calls it."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each cell in order, as ``torch.nn.RNNBase.all_weights``."""
        return [list(self._lend(k).weights().values()) for k in range(len(self._cells))]

    def initial_state(self, batch_size: int) -> State:
        """The state before the first step.

        Args:
            batch_size: number of sequences, :math:`B`.

        Returns:
            A tensor (L·directions, B, state_size), or a tuple of such tensors.
        """
        check_size("batch_size", batch_size, 0)
        return self._initial(batch_size, self._own())

    def _initial(self, B: int, like: Tensor | None) -> State:
        zeros = type(self._cells[0]).initial_state is Cell.initial_state  # which reads no weight
        cells = self._cells if zeros else map(self._lend, range(len(self._cells)))
        return _stack([cell.initial_state(B, like) for cell in cells])

    def step(self, x_t: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """One time step through all layers, for streaming.

        Args:
            x_t: one input for each sequence, (B, D), or (D,) for a single one.
            state: the state before this step, as :meth:`initial_state` gives it, without the
                batch dimension if ``x_t`` has none; default: the initial state.

        Returns:
            The output (B, H) or (H,), and the state after this step. The given state is
            unchanged.

        Raises:
            ValueError: if the layer is bidirectional or trains with ``recurrent_dropout``, or an
                argument does not fit.
            TypeError: if an argument has the wrong type.
        """
        if self.bidirectional:
            raise ValueError(
                "step: a bidirectional layer cannot run step by step, since its backward half "
                "starts at the end of the sequence"
            )
        if self.training and self.recurrent_dropout:
            raise ValueError(
                "step: recurrent_dropout keeps one mask for a whole sequence, which steps one by "
                "one do not know; call eval() to stream, or forward to train"
            )
        check_tensor("x_t", x_t, own := self._own())
        if x_t.dim() not in (1, 2) or x_t.shape[-1] != self.input_size:
            raise ValueError(
                f"x_t: expected (B, {self.input_size}) or ({self.input_size},), "
                f"got {tuple(x_t.shape)}"
            )
        batched = x_t.dim() == 2
        x_t = x_t if batched else x_t.unsqueeze(0)
        state = self._state(state, x_t, x_t.shape[0], batched, "state")
        after = []
        for layer in range(self.num_layers):
            if layer:
                x_t = F.dropout(x_t, self.dropout, self.training)
            cell, B = self._lend(layer), x_t.shape[0]
            x_t, s = self._zoned(cell).update(cell.prepare(x_t), _pick(state, layer))
            _check_update(cell, x_t, s, B, B, own)
            after.append(s)
        state = _stack(after)
        if batched:
            return x_t, state
        return x_t.squeeze(0), cast(State, map_state(lambda s: s.squeeze(1), state))

    def forward(
        self,
        x: Tensor | PackedSequence,
        state: State | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        reset: Tensor | None = None,
        form: str | None = None,
    ) -> tuple[Any, State]:
        """The whole sequence.

        Args:
            x: (B, T, D) if ``batch_first``, else (T, B, D); (T, D) for a single sequence; or a
                PackedSequence.
            state: the state before the first step, as :meth:`initial_state` gives it; default:
                the initial state.
            lengths: (B,) how many steps of each row are valid; the rest is padding, which is
                never read and may hold NaN. 0 is valid.
            reset: bool, laid out as batch and time of ``x``: set the state to the initial one
                before this step, so that several documents can share a row.
            form: how to run; ``None`` picks the fastest form that honors the arguments.

        Returns:
            The outputs in the layout of ``x``, 0 where it is padding; and the state at each row's
            last valid step (a backward direction's: at its first step), (L·directions, B, H).
            A row of length 0 keeps its state.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        if isinstance(x, PackedSequence):
            return self._forward_packed(x, state, lengths, reset, form)
        self._check_input(x)
        batched = x.dim() == 3
        time = 1 if self.batch_first and batched else 0
        if not batched:
            x = x.unsqueeze(1)
        elif time:
            x = x.transpose(0, 1)
        # under torch.jit.trace both are tensors; torch.export may leave B open, a loop not T
        T, B = int(x.shape[0]), int(x.shape[1]) if torch.jit.is_tracing() else x.shape[1]
        lengths = check_lengths(lengths, B, T, batched)
        reset = check_reset(reset, B, T, batched, time)
        state = self._state(state, x, B, batched)
        if lengths is None and reset is None:
            plan = plan_whole(T, B)
        else:
            plan = plan_ragged(T, B, lengths, reset, x.device, self.bidirectional)

        rows = x.reshape(T * B, self.input_size)
        if plan.index is not None:
            rows = rows[plan.index]
        y, state = self._layers(rows, state, plan, form)
        if plan.index is not None:
            y = y.new_zeros(T * B, y.shape[1]).index_copy(0, plan.index, y)
        y = y.view(T, B, y.shape[1])
        if batched:
            return (y.transpose(0, 1) if time else y), state
        return y.squeeze(1), cast(State, map_state(lambda s: s.squeeze(1), state))

    def _forward_packed(
        self, x: PackedSequence, state: State | None, lengths: Any, reset: Any, form: str | None
    ) -> tuple[PackedSequence, State]:
        for name, given in (("lengths", lengths), ("reset", reset)):
            if given is not None:
                raise ValueError(
                    f"{name}: not with a PackedSequence, which is packed already; "
                    f"give the padded tensor with {name} instead"
                )
        rows, sizes, order, back = x.data, x.batch_sizes, x.sorted_indices, x.unsorted_indices
        check_tensor(f"{self._names[0]}.data", rows, self._own())
        if rows.dim() != 2 or rows.shape[1] != self.input_size:
            raise ValueError(
                f"{self._names[0]}.data: expected (N, {self.input_size}) (input_size), "
                f"got {tuple(rows.shape)}"
            )
        falling = bool((sizes[1:] <= sizes[:-1]).all() and (sizes > 0).all())
        if not falling or int(sizes.sum()) != len(rows):
            raise ValueError(
                f"{self._names[0]}.batch_sizes: expected positive sizes that never increase and "
                f"sum to {len(rows)}, the rows of data, got {sizes.tolist()}"
            )
        state = self._state(state, rows, int(sizes[0]) if len(sizes) else 0, True)
        if order is not None:
            state = cast(State, map_state(lambda s: s[:, order], state))
        plan = plan_packed(sizes, rows.device, self.bidirectional)
        y, state = self._layers(rows, state, plan, form)
        if back is not None:
            state = cast(State, map_state(lambda s: s[:, back], state))
        return PackedSequence(y, sizes, order, back), state

    def _layers(
        self, x: Tensor, state: State, plan: Plan, form: str | None
    ) -> tuple[Tensor, State]:
        """All layers and directions over packed rows."""
        initial, own = state, self._own()
        if plan.owner is not None:
            initial = self._initial(flat_state(state)[0].shape[1], x if own is None else own)
        after = []
        for layer in range(self.num_layers):
            if layer:
                x = F.dropout(x, self.dropout, self.training)
            outputs = []
            for direction in range(self.directions):
                k = layer * self.directions + direction
                cell = self._lend(k)
                s = plan.start(_pick(state, k), _pick(initial, k), direction)
                y, s = self._run(cell, plan.mirror(x) if direction else x, plan.sizes, s, form)
                outputs.append(plan.mirror(y) if direction else y)
                after.append(plan.finish(s, direction))
            x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, 1)
        return x, _stack(after)

    def _own(self) -> Tensor | None:
        """A weight as it is stored; never a parametrized one, which would cost its computation."""
        own = next(self.parameters(), None)
        if own is None and getattr(
            self, "_is_replica", False
        ):  # of nn.DataParallel: no parameters
            return next(iter(self._lend(0).weights().values()), None)
        return own

    def _check_input(self, x: Any) -> None:
        name = self._names[0]
        check_tensor(name, x, self._own())
        if x.dim() not in (2, 3):
            raise ValueError(
                f"{name}: expected 3 dimensions, or 2 for a single sequence, got {x.dim()}"
            )
        if x.shape[-1] != self.input_size:
            raise ValueError(
                f"{name}: expected last dimension {self.input_size} (input_size), "
                f"got {x.shape[-1]}"
            )

    def _state(
        self, state: State | None, x: Tensor, B: int, batched: bool, name: str | None = None
    ) -> State:
        """The state to start from, checked, with a batch dimension."""
        own = self._own()
        if state is None:
            return self._initial(B, x if own is None else own)
        lead = (len(self._cells), B) if batched else (len(self._cells),)
        check_state(name or self._names[1], state, self._cells[0].state_size, lead, own)
        return state if batched else cast(State, map_state(lambda s: s.unsqueeze(1), state))

    def extra_repr(self) -> str:
        """The arguments that differ from their defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        if getattr(self, "proj_size", 0):
            text += f", proj_size={self.proj_size}"
        defaults = inspect.signature(type(self._cells[0])).parameters
        shown = {n: v for n, v in self.options.items() if n not in self._unprinted}
        for name, default in [
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", self._batch_first),
            ("dropout", 0.0),
            ("bidirectional", False),
            ("recurrent_dropout", 0.0),
            ("zoneout", ()),
            *((n, defaults[n].default if n in defaults else None) for n in shown),
        ]:
            value = shown[name] if name in shown else getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        if type(self) is Recurrence:
            return f"{type(self._cells[0]).__name__}, {text}"
        return text


def suffix(layer: int, direction: int) -> str:
    """What torch appends to a weight's name: ``_l0``, ``_l1_reverse``."""
    return f"_l{layer}" + ("_reverse" if direction else "")


def _maker(cell: str | type[Cell], options: dict[str, Any]) -> functools.partial[Cell]:
    """The constructor of an architecture's cell, with its options and ours."""
    architecture = find(cell)
    for name, fixed in architecture.options.items():
        if name in options and options[name] != fixed:
            raise ValueError(
                f"{name}: expected {fixed!r}, which makes {cell!r} what it is, "
                f"got {options[name]!r}"
            )
    takes = inspect.signature(architecture.cell).parameters
    missing = [n for n in ("bias", "device", "dtype") if n not in takes]
    if missing and not any(p.kind is p.VAR_KEYWORD for p in takes.values()):
        raise TypeError(
            f"cell: expected {architecture.cell.__name__} to take bias, device and dtype, as "
            f"Recurrence passes them; it lacks {', '.join(missing)}"
        )
    return functools.partial(architecture.cell, **{**architecture.options, **options})


def _check_update(cell: Cell, y: Any, state: Any, rows: int, S: int, own: Tensor | None) -> None:
    """Raise unless a cell's update gave what its sizes promise."""
    name = f"{type(cell).__name__}.update"
    if not isinstance(y, Tensor) or y.shape != (rows, cell.output_size):
        got = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(
            f"{name}: expected outputs of shape {(rows, cell.output_size)}, got {got}"
        )
    check_state(f"{name}: state", state, cell.state_size, (S,), own)


def _pick(state: State, k: int) -> State:
    return cast(State, map_state(lambda s: s[k], state))


def _stack(states: list[State]) -> State:
    return cast(State, map_state(lambda *s: torch.stack(s), *states))
