"""The cell: one step of time, split into what depends on the input alone and what must wait."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import torch
import torch.nn.utils.parametrize
from torch import Tensor, nn

from companion.cells.initialize import Initializer, recurrent_initializer
from companion.checks import check_size

# A cell that carries one tensor gives it bare: h.  One that carries several gives a tuple: (h, c).
State: TypeAlias = Tensor | tuple[Tensor, ...]
Sizes: TypeAlias = int | tuple[int, ...]

C = TypeVar("C", bound="Cell")

CASTABLE = (torch.float32, torch.float16, torch.bfloat16)  # what autocast turns into each other
# torch 2.3 is asked about autocast without a device; its compiler stops at a try that finds out
BY_DEVICE = hasattr(torch, "get_autocast_dtype")


def map_state(f: Callable[..., Any], *states: Any) -> Any:
    """Apply ``f`` to each tensor of a state, or to the tensors of several states side by side.

    Args:
        f: called with one tensor of each state.
        states: bare tensors, or tuples of equal length.

    Returns:
        What ``f`` gave, bare or as a tuple like the states.

    Example:
        >>> map_state(lambda n: n + 1, (3, 4))
        (4, 5)
        >>> map_state(lambda n: n + 1, 3)
        4
    """
    if isinstance(states[0], tuple):
        return tuple(f(*parts) for parts in zip(*states, strict=True))
    if isinstance(states[0], list):
        raise TypeError("state: expected a tensor or a tuple of tensors, got a list")
    return f(*states)


def flat_state(state: State) -> tuple[Tensor, ...]:
    """The tensors of a state as a tuple, also where it is a bare tensor."""
    return state if isinstance(state, tuple) else (state,)


def autocasting(device_type: str) -> bool:
    """Whether autocast is on for this kind of device (one question in three dialects of torch)."""
    if not BY_DEVICE:
        if device_type == "cpu":
            return bool(torch.is_autocast_cpu_enabled())
        return bool(torch.is_autocast_enabled())
    try:
        return bool(torch.is_autocast_enabled(device_type))
    except RuntimeError:  # a device without autocast, such as meta
        return False


def check_tensor(name: str, x: Any, like: Tensor | None) -> None:
    """Raise unless ``x`` is a tensor of the dtype and on the device of ``like``, a weight.

    Under autocast any of the dtypes it casts will do. ``None``: the cell has no weight.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}")
    if x.is_nested or x.layout != torch.strided:
        kind = "nested" if x.is_nested else str(x.layout)
        raise ValueError(f"{name}: expected a dense tensor, got a {kind} one")
    if like is None:
        return
    if x.device != like.device:
        raise ValueError(
            f"{name}: expected it on {like.device}, where the weights are, got {x.device}; "
            f"move it with {name}.to({str(like.device)!r})"
        )
    if x.dtype != like.dtype and not (x.dtype in CASTABLE and autocasting(x.device.type)):
        raise ValueError(
            f"{name}: expected dtype {like.dtype}, as the weights have, got {x.dtype}; "
            f"convert it with {name}.to({like.dtype})"
        )


def check_state(
    name: str, state: Any, sizes: Sizes, lead: tuple[int, ...], like: Tensor | None
) -> None:
    """Raise unless ``state`` has one tensor of shape ``(*lead, size)`` for each of ``sizes``."""
    if isinstance(sizes, tuple):
        if not isinstance(state, tuple) or len(state) != len(sizes):
            pair = "a pair of tensors such as (h, c)"
            due = pair if len(sizes) == 2 else f"a tuple of {len(sizes)} tensors"
            got = f"a tuple of {len(state)}" if isinstance(state, tuple) else type(state).__name__
            raise TypeError(f"{name}: expected {due}, got {got}")
    elif not isinstance(state, Tensor):
        raise TypeError(f"{name}: expected one tensor, got {type(state).__name__}")
    parts = flat_state(state)
    for k, (s, size) in enumerate(zip(parts, flat_sizes(sizes), strict=True)):
        part = f"{name}[{k}]" if isinstance(sizes, tuple) else name
        check_tensor(part, s, like)
        if s.shape != (*lead, size):
            raise ValueError(f"{part}: expected shape {(*lead, size)}, got {tuple(s.shape)}")


def flat_sizes(sizes: Sizes) -> tuple[int, ...]:
    """The sizes of a state's tensors as a tuple."""
    return sizes if isinstance(sizes, tuple) else (sizes,)


class Cell(nn.Module):
    r"""One step of time, the base of every recurrent architecture.

    A subclass registers its weights on itself (:meth:`weight`; modules such as ``nn.LayerNorm``
    and buffers may be used as well) and writes two methods,

    .. math::

        u_{1..T} = \mathrm{prepare}(x_{1..T}), \qquad
        (y_t, s_t) = \mathrm{update}(u_t, s_{t-1}) .

    ``prepare`` holds everything that depends on the input alone, so that it can be computed for
    all steps at once; ``update`` holds what must wait for the previous state :math:`s_{t-1}`.
    Both only read: a layer lends its weights to a copy of the cell, so that what a method assigns
    to ``self`` is gone after the call. The constructor takes ``bias``, ``device`` and ``dtype``
    besides its own options, and ends with :meth:`reset_parameters`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        recurrent_init: how ``weight_hh`` starts; ``None`` keeps torch's uniform draw. See
            :func:`companion.spectral_radius` for the choices.

    Attributes:
        state_size: an int where the state is one tensor, a tuple of ints where it is several.
        output_size: number of features of :math:`y_t`.

    Example:
        A leaky integrator in six lines is a complete architecture:

        >>> import companion, torch
        >>> class Leaky(Cell):
        ...     def __init__(self, input_size, hidden_size, bias=True, **new):
        ...         super().__init__(input_size, hidden_size)
        ...         self.weight_ih = self.weight(hidden_size, input_size, **new)
        ...         self.reset_parameters()
        ...     def prepare(self, x):
        ...         return torch.nn.functional.linear(x, self.weight_ih)
        ...     def update(self, u_t, h):
        ...         h = 0.9 * h + 0.1 * u_t
        ...         return h, h
        >>> layer = companion.Recurrence(Leaky, 3, 4, num_layers=2)
        >>> layer(torch.zeros(2, 7, 3), lengths=[7, 5])[0].shape
        torch.Size([2, 7, 4])
    """

    # names of weights that multiply the previous state, where `recurrent_init` applies
    recurrent_weights: ClassVar[tuple[str, ...]] = ("weight_hh",)
    # how many tensors of the state zoneout may keep; None: all
    zoned: ClassVar[int | None] = None
    state_size: Sizes
    output_size: int
    _mask: Tensor | None = None  # of recurrent dropout, locked for one sequence
    _masked = False  # whether `recurrent` was asked while there was a mask
    _lent: tuple[str, ...] | None = None  # names of the weights a layer lends
    _absent: frozenset[str] | set[str] = frozenset()  # those of them that are None

    def __init__(
        self, input_size: int, hidden_size: int, *, recurrent_init: str | Initializer | None = None
    ) -> None:
        super().__init__()
        check_size("input_size", input_size, 0)
        check_size("hidden_size", hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size
        self.output_size = hidden_size
        self.state_size = hidden_size
        self.recurrent_init = recurrent_initializer(recurrent_init)

    @staticmethod
    def weight(
        *shape: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> nn.Parameter:
        """A parameter of this shape, NaN until :meth:`reset_parameters` fills it."""
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise TypeError(f"dtype: expected a torch.dtype, got {dtype!r}")
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise ValueError(f"dtype: expected one with fractions, such as float32, got {dtype}")
        return nn.Parameter(torch.full(shape, float("nan"), device=device, dtype=dtype))

    def weights(self) -> dict[str, Tensor]:
        """The weights by name, whether the cell owns them or a layer lends them."""
        return {n: w for n in self.weight_names() if (w := getattr(self, n)) is not None}

    def _own(self) -> Tensor | None:
        """A weight as it is stored, for its dtype and device; only a bound cell reads one."""
        if self._lent is None:
            return next(self.parameters(), None)
        return next(iter(self.weights().values()), None)

    def weight_names(self) -> tuple[str, ...]:
        """Names of the weights in order of registration, absent biases included."""
        return tuple(self._parameters) if self._lent is None else self._lent

    def reset_parameters(self) -> None:
        r"""Draw every weight from :math:`U(-1/\sqrt{H}, 1/\sqrt{H})`, as torch does.

        Weights named in ``recurrent_weights`` are then set by ``recurrent_init``, one square
        block (one gate) at a time. Modules inside the cell reset themselves.
        """
        bound = 1 / math.sqrt(self.hidden_size)
        names = self.weight_names()
        if nn.utils.parametrize.is_parametrized(self):
            names = (*names, *cast(nn.ModuleDict, self.parametrizations))
        stored = {n: stored_weight(self, n) for n in names}
        for w in stored.values():
            if w is not None:
                nn.init.uniform_(w, -bound, bound)
        if self.recurrent_init is not None:
            for name in self.recurrent_weights:
                for block in stored[name].detach().split(self.hidden_size):
                    result = self.recurrent_init(block)
                    if result is not None and result is not block:
                        raise TypeError(
                            "recurrent_init: expected a function that fills a matrix in place, "
                            f"got one that returns {type(result).__name__}"
                        )
        for name, module in self.named_modules():
            if name and callable(reset := getattr(module, "reset_parameters", None)):
                reset()

    def prepare(self, x: Tensor) -> Tensor:
        """Everything that does not wait: ``(..., D) -> (..., G)``, for any leading shape."""
        raise NotImplementedError(f"{type(self).__name__} has no prepare")

    def update(self, u_t: Tensor, state: Any) -> tuple[Tensor, Any]:
        """What must wait: ``(n, G)`` and the state give the output ``(n, H)`` and a new state."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def extra_repr(self) -> str:
        """Sizes, and the options that differ from their defaults, as torch prints its cells."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, option in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name, option.default)
            plain = name not in ("input_size", "hidden_size", "device", "dtype", "recurrent_init")
            if plain and option.kind is not option.VAR_KEYWORD and value != option.default:
                text += f", {name}={value}"
        return text

    def begin(self, batch_size: int, like: Tensor) -> None:
        """Draw what stays fixed for one whole sequence; called on the copy a layer binds."""

    def recurrent(self, h: Tensor) -> Tensor:
        """:math:`h_{t-1}` as the recurrent weights see it: under recurrent dropout, masked.

        A cell that calls this where it multiplies the previous state can be run with
        ``recurrent_dropout``. The mask is drawn once for each sequence, before its first step.
        """
        if self._mask is None:
            return h
        self._masked = True
        return h * self._mask[: h.shape[0]]

    def initial_state(self, batch_size: int, like: Tensor | None = None) -> State:
        """The state before the first step, zeros.

        Args:
            batch_size: number of sequences, :math:`B`.
            like: a tensor whose dtype and device the state takes; default: the weights'.

        Returns:
            A tensor ``(B, state_size)``, or a tuple of such tensors.
        """
        check_size("batch_size", batch_size, 0)
        like = self._own() if like is None else like
        make = torch.zeros if like is None else like.new_zeros
        return cast(State, map_state(lambda n: make((batch_size, n)), self.state_size))

    def step(self, x_t: Tensor, state: State) -> tuple[Tensor, State]:
        """One step of time: ``update(prepare(x_t), state)``.

        Args:
            x_t: one input for each sequence, ``(B, D)``.
            state: the state before this step.

        Returns:
            The output ``(B, H)`` and the state after this step, which may share memory with each
            other; the given state is unchanged.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        own = self._own()
        check_tensor("x_t", x_t, own)
        if x_t.dim() != 2 or x_t.shape[1] != self.input_size:
            raise ValueError(f"x_t: expected (B, {self.input_size}), got {tuple(x_t.shape)}")
        check_state("state", state, self.state_size, (x_t.shape[0],), own)
        return self.update(self.prepare(x_t), state)

    def forward(self, input: Tensor, hx: State | None = None) -> State:
        """One step, with the calling convention of ``torch.nn.RNNCell``: the new state alone.

        Args:
            input: ``(B, D)``, or ``(D,)`` for one sequence.
            hx: the state, each part ``(B, H)`` or ``(H,)``; default: the initial state.

        Returns:
            The state after this step, in the layout of ``hx``.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        own = self._own()
        check_tensor("input", input, own)
        if input.dim() not in (1, 2):
            raise ValueError(f"input: expected 1 or 2 dimensions, got {input.dim()}")
        if input.shape[-1] != self.input_size:
            raise ValueError(
                f"input: expected last dimension {self.input_size} (input_size), "
                f"got {input.shape[-1]}"
            )
        batched = input.dim() == 2
        hx = tuple(hx) if isinstance(hx, list) else hx  # torch takes one, too
        if hx is None:
            hx = self.initial_state(len(input) if batched else 1, input if own is None else own)
        else:
            check_state("hx", hx, self.state_size, tuple(input.shape[:-1]), own)
            hx = hx if batched else map_state(lambda s: s.unsqueeze(0), hx)
        u = self.prepare(input if batched else input.unsqueeze(0))
        _, state = self.update(u, hx)
        return state if batched else cast(State, map_state(lambda s: s.squeeze(0), state))


def stored_weight(module: nn.Module, name: str) -> Any:
    """A weight as it is stored: behind a parametrization, the parameter that training changes."""
    if not nn.utils.parametrize.is_parametrized(module, name):
        w, lends = getattr(module, name), getattr(module, "_lent", None) is not None
        if w is not None and name not in module._parameters and not lends:
            raise ValueError(
                f"reset_parameters: {name} is computed by a hook of old-style weight_norm, "
                "spectral_norm or prune; remove that first"
            )
        return w
    behind = cast(Any, module.parametrizations)[name]
    if not hasattr(behind, "original"):
        raise ValueError(
            f"reset_parameters: {name} is parametrized by several tensors; remove the "
            "parametrization first"
        )
    return behind.original


def bind(cell: C, lent: Mapping[str, Any], training: bool | None = None) -> C:
    """The same equations reading the given weights: a shallow copy, nothing registered.

    A layer keeps the parameters under torch's names and lends them to its cells for one call, so
    that a weight that is parametrized (or dropped, or normalized) is computed once a call.

    Args:
        cell: the cell whose equations and options to use; it stays as it is.
        lent: for every weight the cell reads a tensor, or ``None`` for an absent bias; likewise
            the modules and buffers inside the cell.
        training: the mode of the copy; default: the cell's own.

    Returns:
        A copy of the cell that reads what is lent.
    """
    bound = object.__new__(type(cell))
    bound.__dict__.update(cell.__dict__)
    bound.__dict__["_lent"] = names = cell.weight_names()
    bound.__dict__.update({n: lent[n] for n in names}, _parameters={})
    for inside in ("_modules", "_buffers"):
        bound.__dict__[inside] = {n: lent[n] for n in cell.__dict__[inside]}
    if training is not None:
        bound.training = training
    return bound
