"""Study: parity and majority of bits, trained on short sequences, tested on longer ones.

Parity needs two states, majority a counter without bound: two answers to the question whether a
network that runs on any length also works on any length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

import companion
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(8)
HIDDEN, LONGEST, BATCH, STEPS, RATE = 32, 20, 128, 3000, 3e-3
LENGTHS = (20, 50, 200)
TESTED = 2000  # sequences of each length


class Reader(nn.Module):
    """Bits → state → logit of "yes" at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = companion.RNN(1, HIDDEN, batch_first=True)
        self.yes = nn.Linear(HIDDEN, 1)

    def forward(self, bits: Tensor) -> Tensor:
        y, _ = self.rnn(bits[..., None])  # (B, T) → (B, T, H)
        return self.yes(y)[..., 0]


def parity(bits: Tensor) -> Tensor:
    """Say for each prefix of bits (B, T) whether its number of ones is odd: 1 or 0."""
    return bits.cumsum(1) % 2


def majority(bits: Tensor) -> Tensor:
    """Say for each prefix of bits (B, T) whether more than half of it are ones: 1 or 0."""
    return ((2 * bits - 1).cumsum(1) > 0).float()


class Sequences:
    """Random bits, every batch of one length drawn from 1 … 20."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def __iter__(self) -> Iterator[Tensor]:
        for _ in range(STEPS):
            length = int(torch.randint(1, LONGEST + 1, (), generator=self.generator))
            yield torch.randint(0, 2, (BATCH, length), generator=self.generator).float()


@torch.no_grad()
def accuracy(model: nn.Module, task: Callable[[Tensor], Tensor], length: int) -> float:
    """Return the share of sequences with the right answer after their last bit."""
    generator = torch.Generator().manual_seed(10_000 + length)
    bits = torch.randint(0, 2, (TESTED, length), generator=generator).float()
    return ((model(bits)[:, -1] > 0) == (task(bits)[:, -1] > 0)).float().mean().item()


def trained(task: Callable[[Tensor], Tensor], seed: int) -> Reader:
    def objective(model: nn.Module, bits: Tensor) -> tuple[Tensor, int]:
        loss = nn.functional.binary_cross_entropy_with_logits(model(bits), task(bits))
        return loss, bits.numel()

    seed_all(seed)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    trainer = Trainer(model, objective, optimizer, clip_norm=1.0, progress=False)
    trainer.fit(Sequences(seed))
    return model.eval()


def one_seed(seed: int) -> dict[str, float]:
    values = {}
    for name, task in TASKS.items():
        model = trained(task, seed)
        values |= {f"{name}_{length}": accuracy(model, task, length) for length in LENGTHS}
    return values


TASKS = {"parity": parity, "majority": majority}

if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Vanilla RNN, H = {HIDDEN}, trained for {STEPS} batches of {BATCH} sequences of 1 to "
        f"{LONGEST} bits answering after every bit, Adam at {RATE:g}, gradient norm clipped at 1; "
        f"accuracy of the last answer over {TESTED} sequences of each length.",
        one_seed,
        SEEDS,
        {f"{task}_{n}": f"accuracy of the {task} of {n} bits" for task in TASKS for n in LENGTHS},
    )
    print(path.name)
