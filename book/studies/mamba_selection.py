"""Study: what must depend on the input, for symbols at random places to be copied.

The same two blocks each time; of the step size, the writing and the reading of a Mamba some are
functions of the input, and the others learned constants. There is no window, and questions are
numbered, so that nothing else can tell one step from another. Widths are chosen so that all
models have about as many weights. Trained among few blanks, asked among few and many. Δ stands
in two places, in the fade and in the write: it may depend on the input in one of them alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from ssm_digits import Block
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.cells.linear import Time
from companion.cells.matrix import convolve
from companion.data import selective_copying
from companion.look import run_study
from companion.models import Backbone
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
WEIGHTS = 5000
T, SYMBOLS, LENGTH = 20, 4, 2
ASKED = (20, 80)
STEPS, BATCH, RATE, TESTED = 400, 32, 2e-2, 500
SLOTS = 4
LOOKED_AT = 90  # few enough to be one block of steps: `seen` is the last


class Choosing(companion.MambaCell):
    """A Mamba of whose Δ, B and C only those named in ``chosen`` depend on the input.

    ``places`` says where Δ does, if it does; elsewhere it is a learned constant. ``seen`` holds B,
    C and the Δ of both places, of the last call; what stands in ``held`` replaces them.
    """

    chosen, conv = "dBC", 1
    places: tuple[str, ...] = ("fade", "write")

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, **new: Any) -> None:
        super().__init__(input_size, hidden_size, bias, slots=SLOTS, window=self.conv, **new)
        self.rows = [{"d": self.low, "B": SLOTS, "C": SLOTS}[name] for name in self.chosen]
        bound = self.width**-0.5
        self.weight_x = self.weight(sum(self.rows), self.width, **new)
        nn.init.uniform_(self.weight_x, -bound, bound)
        self.constant = nn.Parameter(torch.randn(2 - len(set("BC") & set(self.chosen)), SLOTS))
        if "d" not in self.chosen:
            del self.weight_dt
        self.held: dict[str, Tensor] = {}
        self.seen: dict[str, Tensor] = {}

    def along(self, u: Tensor, state: Any, time: Time) -> tuple[Tensor, Any]:
        """As the parent's, with constants for what is not chosen."""
        h, past = state
        x, z = u.chunk(2, -1)
        x, past = convolve(x, self.weight_conv, self.bias_conv, past, time)
        x = F.silu(x)
        found = F.linear(x, self.weight_x).split(self.rows, -1)
        part = dict(zip(self.chosen, found, strict=True))
        constants = iter(self.constant)
        B, C = (part[n] if n in part else next(constants).expand(len(x), -1) for n in "BC")
        constant = F.softplus(torch.zeros_like(x) + self.bias_dt)
        dt = constant
        if "d" in part:
            dt = F.softplus(F.linear(part["d"], self.weight_dt) + self.bias_dt)
        for place in ("fade", "write"):
            self.seen[place] = dt if place in self.places else constant
        self.seen.update(B=B, C=C)
        fade, write, B, C = (self.held.get(n, v).unsqueeze(-1) for n, v in self.seen.items())
        b = write * B.mT * x.unsqueeze(-1)
        hs, end = time.scan((fade * -self.log_a.exp()).exp().flatten(1), b.flatten(1), h)
        y = (hs.view(b.shape) @ C).squeeze(-1)
        return F.linear((y + self.skip * x) * F.silu(z), self.weight_ho, self.bias_ho), (end, past)


def choosing(
    chosen: str, conv: int = 1, places: tuple[str, ...] = ("fade", "write")
) -> type[companion.MambaCell]:
    return type("Chosen", (Choosing,), {"chosen": chosen, "conv": conv, "places": places})


class Copier(nn.Module):
    """(B, T) symbols -> (B, T, symbols) scores, by two blocks."""

    def __init__(self, word: str | type[companion.MambaCell], width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS + 1 + LENGTH, width)
        if word == "s4d":
            self.body: nn.Module = nn.Sequential(*[Block(width, "lin") for _ in range(2)])
        else:
            self.body = Backbone(width, width, [word] * 2, expand=0)
        self.out = nn.Linear(width, SYMBOLS + 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.embed(x))
        return self.out(y[0] if isinstance(y, tuple) else y)


def count(model: nn.Module) -> int:
    return sum(w.numel() for w in model.parameters())


# name: the mixer, what it is
VARIANTS: dict[str, tuple[Callable[[], Any], str]] = {
    "all": (lambda: choosing("dBC"), "Mamba, Δ, B and C of the input"),
    "dt": (lambda: choosing("d"), "Mamba, Δ alone of the input"),
    "bc": (lambda: choosing("BC"), "Mamba, B and C of the input"),
    "none": (lambda: choosing(""), "Mamba, Δ, B and C constants"),
    "fade": (lambda: choosing("d", places=("fade",)), "Mamba, Δ of the input in the fade only"),
    "write": (lambda: choosing("d", places=("write",)), "Mamba, Δ of the input in the write only"),
    "read": (lambda: choosing("C"), "Mamba, C alone of the input"),
    "fade_bc": (
        lambda: choosing("dBC", places=("fade",)),
        "Mamba, B, C, and Δ in the fade only, of the input",
    ),
    "s4d": (lambda: "s4d", "S4D"),
    "gru": (lambda: "gru", "GRU"),
}


def equal(word: Any, weights: int = WEIGHTS) -> int:
    """The width whose model comes nearest to the budget."""
    return min(range(8, 64), key=lambda n: abs(count(Copier(word, n)) - weights))


def examples(n: int, T: int, seed: int) -> tuple[Tensor, Tensor]:
    """Inputs (n, T + LENGTH), the questions numbered, and answers (n, LENGTH)."""
    task = selective_copying(n, T, SYMBOLS, LENGTH, seed)
    x = task.x.clone()
    x[:, T:] += torch.arange(LENGTH)
    return x, task.y[:, T:]


def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
    x, y = batch
    return F.cross_entropy(model(x)[:, -LENGTH:].flatten(0, 1), y.flatten()), len(y)


def accuracy(model: nn.Module, T: int) -> float:
    x, y = examples(TESTED, T, 10_000)
    with torch.no_grad():
        return (model.eval()(x)[:, -LENGTH:].argmax(-1) == y).float().mean().item()


def trained(name: str, seed: int) -> nn.Module:
    word = VARIANTS[name][0]()
    width = equal(word)
    seed_all(seed)
    model = Copier(word, width)
    x, y = examples(STEPS * BATCH, T, seed)
    rows = list(zip(x.split(BATCH), y.split(BATCH), strict=True))
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, STEPS)
    trainer = Trainer(
        model, objective, adam, step_scheduler=falling, clip_norm=1.0, progress=False
    )
    trainer.fit(rows)
    return model.eval()


class Held:
    """A trained model among many blanks, and what it does where others set what it chooses."""

    @torch.no_grad()
    def __init__(self, model: Any) -> None:
        self.model = model
        self.x, self.y = examples(LOOKED_AT, ASKED[1], 10_000)
        self.blank = self.x.T.flatten() == 0  # rows of a packed batch: time first
        self.cells = [block.mixer.cell(0) for block in model.body.blocks]
        model(self.x)
        self.seen = [{n: v.clone() for n, v in cell.seen.items()} for cell in self.cells]

    def hold(self, names: tuple[str, ...], change: Callable[[Tensor], Tensor]) -> None:
        for cell, found in zip(self.cells, self.seen, strict=True):
            cell.held.clear()
            cell.held.update({n: change(found[n]) for n in names})

    @torch.no_grad()
    def right(self) -> float:
        """Accuracy over the sequences looked at."""
        return (self.model(self.x)[:, -LENGTH:].argmax(-1) == self.y).float().mean().item()

    def at_blanks(self, names: tuple[str, ...], factor: float) -> float:
        """Accuracy with these of its step sizes times a factor, at blanks."""
        slow = torch.where(self.blank, factor, 1.0).unsqueeze(-1)
        self.hold(names, lambda v: v * slow)
        return self.right()


PLACES = {"fade": ("fade",), "write": ("write",), "both": ("fade", "write")}


def looked(model: Any) -> dict[str, float]:
    """Where Δ opens at symbols; accuracy where what a trained model chooses is taken from it."""
    held = Held(model)
    symbol = ((held.x > 0) & (held.x <= SYMBOLS)).T.flatten()
    values = {"as_trained": held.right()}
    for i, found in enumerate(held.seen, 1):
        ratio = found["fade"][symbol].mean(0) / found["fade"][held.blank].mean(0)  # a channel each
        values[f"most_{i}"], values[f"least_{i}"] = ratio.max().item(), ratio.min().item()
    for n, names in {"d": PLACES["both"], "b": ("B",), "c": ("C",)}.items():
        held.hold(names, lambda v: v.mean(0, keepdim=True))
        values[f"held_{n}"] = accuracy(model, T)
    values["still"] = held.at_blanks(PLACES["both"], 0.0)
    return values


def slowed(model: Any) -> dict[str, float]:
    """Accuracy with as much time at many blanks as training had at few."""
    held = Held(model)
    factor = (T - LENGTH) / (ASKED[1] - LENGTH)
    found = {f"slow_{n}": held.at_blanks(names, factor) for n, names in PLACES.items()}
    return {"slow_none": held.at_blanks((), factor)} | found


def one_seed(seed: int) -> dict[str, float]:
    values: dict[str, float] = {}
    for name in VARIANTS:
        model = trained(name, seed)
        values[f"weights_{name}"] = count(model)
        for asked in ASKED:
            values[f"{name}_{asked}"] = accuracy(model, asked)
        if name == "all":
            values |= looked(model)
        if name == "bc":
            values |= slowed(model)
    return values


DESCRIPTION = (
    f"Copy {LENGTH} of {SYMBOLS} symbols spread over {T} steps: two blocks, about {WEIGHTS} "
    f"weights in all, {STEPS} Adam steps, rate from {RATE:g} to 0 along a cosine, batches of "
    f"{BATCH} fresh sequences, gradient norm clipped at 1; share of the symbols right in "
    f"{TESTED} new sequences of {ASKED[0]} and {ASKED[1]} steps, 1/{SYMBOLS} by chance."
)
MANY = f"symbols right among {ASKED[1]} steps, {LOOKED_AT} sequences"
KEYS = (
    {
        f"{name}_{asked}": f"symbols right among {asked} steps, {what}"
        for name, (_, what) in VARIANTS.items()
        for asked in ASKED
    }
    | {
        f"{which}_{i}": f"Δ at symbols over Δ at blanks, channel where {which}, block {i}"
        for which in ("most", "least")
        for i in (1, 2)
    }
    | {"as_trained": f"{MANY}, Mamba, Δ, B and C of the input"}
    | {"still": f"{MANY}, the same with Δ = 0 at blanks"}
    | {
        f"held_{n.lower()}": f"symbols right among {T} steps, trained, then {n} at its mean"
        for n in ("d", "B", "C")
    }
    | {"slow_none": f"{MANY}, Mamba, B and C of the input"}
    | {
        f"slow_{n}": f"{MANY}, the same with time at blanks slowed to that of training, {what}"
        for n, what in (("fade", "fade"), ("write", "write"), ("both", "fade and write"))
    }
    | {f"weights_{name}": f"weights, {what}" for name, (_, what) in VARIANTS.items()}
)

if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(__file__, DESCRIPTION, one_seed, SEEDS, KEYS)
    print(path.name)
