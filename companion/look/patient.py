"""A model on the couch: what one batch shows of it, without a trace on it."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from companion.layers import Recurrence
from companion.look.vitals import cut_rows, on_device, target_of, undisturbed
from companion.train.truncated import tensors_in

__all__ = ["Objective", "Patient", "Vitals", "is_sequence_layer"]

Objective = Callable[..., tuple[Any, ...]]
# a few rows and steps: a network that can learn at all takes little time to know them by heart
LEARN_STEPS, LEARN_ROWS, LEARN_RATE = 100, 8, 1e-2
HUGE = 1e10  # no score of a healthy network; its square is still a number
WAKE_STEPS = 2  # after so many a layer that begins with zeros lets the gradient through
MEMORIZED = 0.7  # what is left of the loss; that of the best constant answer is mostly above


@dataclass
class Vitals:
    """What one batch shows.

    Attributes:
        loss: mean loss.
        weight: what the objective says that it counts for; 0: not at all.
        scores: what the model returned, the first floating-point tensor of it.
        target: of the batch: what the scores are compared with, where it could be told.
        unreached: parameters that got no gradient, or one that is 0 throughout.
        layer: the first sequence layer that ran, and its input (B, T, D) and outputs.
        x_grad: the gradient of the loss with respect to that input.
        nodes: operations in the graph of the backward pass.
        denormal: share of denormal numbers among the layer's outputs and ``x_grad``.
    """

    loss: float
    weight: float
    scores: Tensor | None
    target: Tensor | None
    unreached: list[str]
    layer: nn.Module | None = None
    x: Tensor | None = None
    y: Tensor | None = None
    x_grad: Tensor | None = None
    nodes: int = 0
    denormal: float = 0.0


@dataclass
class _Seen:
    """What the hooks caught."""

    scores: Tensor | None = None
    layer: nn.Module | None = None
    x: Tensor | None = None
    y: Tensor | None = None
    handles: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Patient:
    """A model with what it was trained by, and batches; examined, it stays as it is.

    Args:
        model: any module.
        objective: as that of :class:`companion.train.Trainer`.
        batches: to be read several times.
        stateful: whether the objective takes a state; it is given None.

    Raises:
        ValueError: if no parameter of the model can learn; later, if the objective does not return
            a tuple of loss and weight, or a copy that is to learn cannot be made.
    """

    model: nn.Module
    objective: Objective
    batches: Iterable[Any]
    stateful: bool = False

    def __post_init__(self) -> None:
        if not any(p.requires_grad for p in self.model.parameters()):
            raise ValueError("model: expected a parameter with requires_grad, got none")

    def measure(self, batch: Any, model: nn.Module | None = None) -> tuple[Any, ...]:
        """What the objective returns for a batch, of this model or another."""
        model = self.model if model is None else model
        given = (on_device(model, batch), *([None] if self.stateful else []))
        measured = self.objective(model, *given)
        if not isinstance(measured, tuple) or len(measured) < 2:
            got = type(measured).__name__
            raise ValueError(f"objective: expected a tuple (loss, weight, ...), got a {got}")
        return measured

    def vitals(self, batch: Any) -> Vitals:
        """Run one batch forwards and backwards; no ``grad`` is set or changed."""
        named = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        with undisturbed(self.model, training=True), torch.enable_grad():
            with _watched(self.model) as seen:
                loss, weight, *_ = self.measure(batch)
            wanted = [*named.values(), *([] if seen.x is None else [seen.x])]
            grads: Sequence[Tensor | None] = [None] * len(wanted)
            if loss.requires_grad:  # else nothing is reached
                grads = torch.autograd.grad(loss, wanted, allow_unused=True)
        reached = dict(zip(named, grads, strict=False))
        found = Vitals(
            loss=loss.item(),
            weight=float(weight),
            scores=None if seen.scores is None else seen.scores.detach(),
            target=target_of(seen.scores, on_device(self.model, batch)),
            unreached=[n for n, g in reached.items() if g is None or not _dense(g).any()],
            layer=seen.layer,
            nodes=_nodes(loss),
        )
        if seen.x is None or seen.y is None:
            return found
        x, y, last = seen.x.detach(), seen.y.detach(), grads[-1]
        g = torch.zeros_like(x) if last is None else last
        found.denormal = _denormal(torch.cat([y.flatten(), g.flatten()]))
        if getattr(seen.layer, "batch_first", True) is False:
            x, y, g = x.transpose(0, 1), y.transpose(0, 1), g.transpose(0, 1)
        found.x, found.y, found.x_grad = x, y, g
        return found

    def fault(self, batch: Any) -> tuple[str, str] | None:
        """Where the loss of a batch stops being finite, or None: the cause, and the place."""
        batch = on_device(self.model, batch)
        if any(t.is_floating_point() and not t.isfinite().all() for t in tensors_in(batch)):
            return "bad data", ""  # first: whatever follows may come of it
        with undisturbed(self.model, training=True), torch.no_grad():
            with _watched(self.model) as seen, _first_not_finite(self.model) as first:
                loss, weight, *_ = self.measure(batch)
        if math.isfinite(loss.item()) or weight == 0:
            return None
        # a mean over no target is 0 / 0: one value everywhere, padding or what is ignored
        whole = [t for t in tensors_in(batch) if t.dtype in (torch.int64, torch.int32)]
        constant = [t for t in whole if t.numel() and bool((t == t.flatten()[0]).all())]
        empty = any(t.dim() > 0 and (t < 0).all() for t in constant)
        named = self.model.named_parameters()
        broken = [n for n, p in named if not p.detach().isfinite().all()]
        if empty or (constant and not first and not broken):
            return "batch without a target", ""
        if broken:
            return "weights not finite", broken[0]
        module = self.model.get_submodule(first[0]) if first else None
        scores = 0.0 if seen.scores is None or first else seen.scores.abs().max().item()
        if scores > HUGE or (module is not None and is_sequence_layer(module)):
            return "exploding state", first[0] if first else f"scores of {scores:.3g}"
        return ("the model", first[0]) if first else ("the loss", "")

    def explodes(self, batch: Any) -> bool:
        """Whether the gradient stops being finite on its way back, and not already in the loss."""
        wanted = [p for p in self.model.parameters() if p.requires_grad]
        with undisturbed(self.model, training=True), torch.enable_grad():
            with _watched(self.model) as seen:
                loss = self.measure(batch)[0]
            if seen.scores is None or not loss.isfinite() or not loss.requires_grad:
                return False
            grads = torch.autograd.grad(loss, [seen.scores, *wanted], allow_unused=True)
        fine = [g is None or bool(_dense(g).isfinite().all()) for g in grads]
        return fine[0] and not all(fine)

    def learns(self, batch: Any) -> tuple[float, float]:
        """Loss on a few rows of a batch before and after some steps on them, taken by a copy."""
        losses = self._practice(self._copy(), batch, LEARN_STEPS)
        return losses[0], min(losses)

    def asleep(self, batch: Any, names: Sequence[str]) -> list[str]:
        """Those of the parameters without a gradient to which none comes after a few steps."""
        pupil = self._copy()
        self._practice(pupil, batch, WAKE_STEPS)
        after = Patient(pupil, self.objective, [batch], self.stateful).vitals(batch).unreached
        return [name for name in names if name in after]

    def _copy(self) -> nn.Module:
        try:
            return copy.deepcopy(self.model)
        except (RuntimeError, TypeError) as error:
            raise ValueError(
                "model: expected one that copy.deepcopy can copy (a copy learns a few rows); a "
                f"tensor that it keeps of a forward pass must be detached; got: {error}"
            ) from error

    def _practice(self, pupil: nn.Module, batch: Any, steps: int) -> list[float]:
        batch = cut_rows(batch, LEARN_ROWS)
        losses = []
        with undisturbed(pupil, training=True), torch.enable_grad():
            adam = torch.optim.Adam(pupil.parameters(), lr=LEARN_RATE)
            for _ in range(steps):
                loss = self.measure(batch, pupil)[0]
                losses.append(loss.item())
                if not loss.requires_grad or not math.isfinite(losses[-1]):
                    break
                adam.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(pupil.parameters(), 1.0)
                adam.step()
        return losses


def is_sequence_layer(module: nn.Module) -> bool:
    """Whether it is a layer of ours or of torch that runs along time."""
    return isinstance(module, nn.RNNBase | Recurrence)


@contextlib.contextmanager
def _watched(model: nn.Module) -> Iterator[_Seen]:
    """Catch what the model returns, and what its first sequence layer is given and gives."""
    seen = _Seen()

    def before(layer: nn.Module, inputs: tuple[Any, ...]) -> Any:
        sequence = inputs and isinstance(inputs[0], Tensor) and inputs[0].dim() == 3
        if not sequence or seen.layer not in (None, layer) or seen.x is not None:
            return None
        seen.layer = layer
        seen.x = inputs[0] if inputs[0].requires_grad else inputs[0].detach().requires_grad_()
        return (seen.x, *inputs[1:])

    def after(layer: nn.Module, inputs: Any, output: Any) -> None:
        if layer is seen.layer and seen.y is None:
            seen.y = next(tensors_in(output), None)

    def scored(module: nn.Module, inputs: Any, output: Any) -> None:
        seen.scores = next((t for t in tensors_in(output) if t.is_floating_point()), None)

    for module in model.modules():
        if is_sequence_layer(module):
            seen.handles.append(module.register_forward_pre_hook(before))
            seen.handles.append(module.register_forward_hook(after))
    seen.handles.append(model.register_forward_hook(scored))
    try:
        yield seen
    finally:
        for handle in seen.handles:
            handle.remove()


@contextlib.contextmanager
def _first_not_finite(model: nn.Module) -> Iterator[list[str]]:
    """Collect the name of the first module whose output is not finite."""
    first: list[str] = []

    def look(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            tensors = [t for t in tensors_in(output) if t.is_floating_point()]
            if not first and any(not t.isfinite().all() for t in tensors):
                first.append(name)

        return hook

    handles = [m.register_forward_hook(look(name)) for name, m in model.named_modules()]
    try:
        yield first
    finally:
        for handle in handles:
            handle.remove()


def _denormal(values: Tensor) -> float:
    """Share of the numbers that are not 0 and nearer to it than a normal one can be."""
    tiny = torch.finfo(values.dtype).tiny
    return ((values != 0) & (values.abs() < tiny)).double().mean().item()


def _nodes(loss: Tensor) -> int:
    seen: set[Any] = set()
    todo: list[Any] = [loss.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [following for following, _ in node.next_functions]
    return len(seen)


def _dense(gradient: Tensor) -> Tensor:
    return gradient.coalesce().values() if gradient.is_sparse else gradient
