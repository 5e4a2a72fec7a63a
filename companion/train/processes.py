"""One process or several: the seam behind which accelerate is, and stays unless it is needed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from companion.train.batches import give

__all__ = ["Alone", "Together", "processes"]


def processes(device: torch.device) -> Alone:
    """One process, or those that ``torchrun`` started.

    Args:
        device: of the model; ``cuda`` becomes each process's own.

    Raises:
        ModuleNotFoundError: if there are several processes and accelerate is not installed.
        ValueError: if the processes of this run are on another kind of device already.
    """
    together = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return Together(device) if together else Alone(device)


class Alone:
    """One process: there is nothing to agree on."""

    rank, world = 0, 1

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def sums(self, *numbers: float) -> list[float]:
        """Each number, summed over the processes."""
        return list(numbers)

    def gather(self, value: Any) -> list[Any]:
        """What each process gives, in all of them."""
        return [value]

    def of_first(self, value: Any) -> Any:
        """What the first process gives, in all of them."""
        return value

    def spread(self, tensors: Iterable[Tensor]) -> None:
        """Give the tensors of all processes the values of the first one's."""

    def mean_gradient(self, named: Sequence[tuple[str, Tensor]], scale: float) -> None:
        """Scale the gradients, and sum them over the processes."""
        if scale != 1:
            for _, parameter in named:
                if parameter.grad is not None:
                    parameter.grad.mul_(scale)

    def wait(self) -> None:
        """Go on when every process is here."""


class Together(Alone):
    """Several processes, by accelerate: gloo on CPUs, NCCL on CUDA devices.

    The gradients are summed when the backward pass is over, not during it as
    ``DistributedDataParallel`` does: that counts on the model being called as a whole, but an
    objective may call any part of it. Nor is there much to overlap in a recurrent network: the
    gradient of its weights is complete at the first time step, the last one to be computed.
    """

    def __init__(self, device: torch.device) -> None:
        try:
            from accelerate import PartialState
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "several processes need accelerate, which is not installed; in the clone of the "
                'book: pip install -e ".[train]"'
            ) from error
        self.state = PartialState(cpu=device.type == "cpu")
        # accelerate numbers the CPU too, and torch copies a tensor from "cpu" to "cpu:0"
        super().__init__(device if device.type == "cpu" else self.state.device)
        if self.state.device.type != device.type:
            raise ValueError(
                f"device: expected {self.state.device.type}, which the processes of this run "
                f"are on, got {device}"
            )
        self.rank, self.world = self.state.process_index, self.state.num_processes

    def sums(self, *numbers: float) -> list[float]:
        from accelerate.utils import reduce

        kind = torch.float32 if self.device.type == "mps" else torch.float64
        mine = torch.tensor(numbers, dtype=kind, device=self.device)
        total: list[float] = reduce(mine, "sum").tolist()
        return total

    def gather(self, value: Any) -> list[Any]:
        from accelerate.utils import gather_object

        return list(gather_object([value]))

    def of_first(self, value: Any) -> Any:
        from accelerate.utils import broadcast_object_list

        return broadcast_object_list([value])[0]

    @torch.no_grad()
    def spread(self, tensors: Iterable[Tensor]) -> None:
        from accelerate.utils import broadcast

        for tensor in tensors:
            values = tensor.detach().to(self.device).contiguous()  # NCCL takes its own only
            if values.numel():  # as bytes: gloo and NCCL do not know every dtype
                data = broadcast(values.reshape(-1).view(torch.uint8))
                give(tensor, data.view(values.dtype).view(values.shape))

    @torch.no_grad()
    def mean_gradient(self, named: Sequence[tuple[str, Tensor]], scale: float) -> None:
        from accelerate.utils import reduce

        parameters = [p for _, p in named if p.requires_grad]
        for name, p in named:
            if p.grad is not None and p.grad.is_sparse:
                raise TypeError(
                    f"the gradient of {name} is sparse, which several processes cannot sum; make "
                    "the layer with sparse=False"
                )
        # one that no process used has no gradient, which is not the same as a gradient of 0
        used = self.sums(*(p.grad is not None for p in parameters))
        parameters = [p for p, count in zip(parameters, used, strict=True) if count]
        for kind in dict.fromkeys(p.dtype for p in parameters):
            same = [p for p in parameters if p.dtype == kind]
            flat = [torch.zeros_like(p) if p.grad is None else p.grad for p in same]
            total = reduce(torch.cat([g.reshape(-1).to(self.device) for g in flat]) * scale, "sum")
            parts = total.split([p.numel() for p in same])
            for p, part in zip(same, parts, strict=True):
                p.grad = torch.empty_like(p).copy_(part.view(p.shape))

    def wait(self) -> None:
        self.state.wait_for_everyone()
