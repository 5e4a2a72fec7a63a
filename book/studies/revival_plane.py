"""Study: the architectures on two tests, recall and tracking; and blocks of two kinds."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from companion.cells.linear import Time, full, rounded
from companion.cells.minimal import MinGRUCell
from companion.data import parity
from companion.look import run_study
from companion.models import Backbone
from companion.reproduce import cpu_generator, deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
KEYS, VALUES, PAIRS = 32, 8, 8
T, LONGER, LONGEST = 20, 40, 200
WEIGHTS, STEPS, BATCH, RATE, TESTED = 9000, 400, 32, 5e-3, 300


class SignedMinGRUCell(MinGRUCell):
    """A minGRU whose gate is a tanh: from −1 to 1 in the place of 0 to 1."""

    snap = False  # True: factors beyond ±0.8 count as ±1, about the same points

    def along(self, u: Tensor, h: Tensor, time: Time) -> tuple[Tensor, Tensor]:
        z, n = full(u).chunk(2, -1)
        z = torch.tanh(z)
        b = (1 - z.abs()) * self.candidate(n)
        if self.snap:  # h − m becomes ±(h − m), where z m + b = m
            far = z.abs() > 0.8
            b = torch.where(far, torch.where(z < 0, 2 * b / (1 - z), 0.0), b)
            z = torch.where(far, z.sign(), z)
        return rounded(*time.scan(z, b, h), u, h)


class UnsignedMinGRUCell(MinGRUCell):
    """The same without the sign."""

    def along(self, u: Tensor, h: Tensor, time: Time) -> tuple[Tensor, Tensor]:
        z, n = full(u).chunk(2, -1)
        z = torch.tanh(z).abs()
        return rounded(*time.scan(z, (1 - z) * self.candidate(n), h), u, h)


NEGATIVE: dict[str, Any] = {"deltanet": {"negative_eigenvalues": True}}
ONE = ["rnn", "lstm", "gru", "slstm", "mingru", "lru", "s4d", "rglru", "mamba", "rwkv4"]
ONE += ["linear_attention", "retnet", "mamba2", "mlstm", "deltanet", "rwkv7", "attention"]
# name: words of the blocks, options, what it is
VARIANTS: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    **{name: ([name], {}, name) for name in ONE},
    "deltanet_negative": (["deltanet"], NEGATIVE, "deltanet, β up to 2"),
    "mingru_signed": ([SignedMinGRUCell], {}, "mingru, gate from −1 to 1"),
    "mingru_twice": (["mingru"] * 2, {}, "mingru, mingru"),
    "gru_twice": (["gru"] * 2, {}, "gru, gru"),
    "attention_twice": (["attention"] * 2, {}, "attention, attention"),
    "mingru_attention": (["mingru", "attention"], {}, "mingru, attention"),
    "gru_attention": (["gru", "attention"], {}, "gru, attention"),
    "attention_gru": (["attention", "gru"], {}, "attention, gru"),
}
AGAIN = ["gru_attention", "attention_gru", "gru_twice"]  # the lamp with as many seeds more


class Reader(nn.Module):
    """Columns of symbols (B, T, columns) → blocks → scores (B, T, classes)."""

    def __init__(
        self, columns: list[int], classes: int, words: list[Any], E: int, **options: Any
    ) -> None:
        super().__init__()
        self.embed = nn.ModuleList(nn.Embedding(n, E) for n in columns)
        self.blocks = Backbone(E, E, words, heads=2, **options)
        self.out = nn.Linear(E, classes)

    def forward(self, x: Tensor) -> Tensor:
        parts = [embed(x[..., i]) for i, embed in enumerate(self.embed)]
        return self.out(self.blocks(torch.stack(parts).sum(0))[0])


def weights(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def reader(columns: list[int], classes: int, words: list[Any], options: dict[str, Any]) -> Reader:
    """24 features and one block, or 16 and two; the feed-forward parts fill up to WEIGHTS."""
    E = 24 if len(words) == 1 else 16
    given = {"options": options} if options else {}
    bare = weights(Reader([KEYS, VALUES + 1], VALUES, words, E, expand=0, **given))
    # a unit of the feed-forward part has 2E + 1 weights, the whole 3E more
    units = round(((WEIGHTS - bare) / len(words) - 3 * E) / (2 * E + 1))
    return Reader(columns, classes, words, E, expand=units / E, **given)


def bindings(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """(n, 2 PAIRS, 2): a key and a value a step, then keys alone; and the answers (n, PAIRS)."""
    g = cpu_generator(seed)
    keys = torch.rand(n, KEYS, generator=g).argsort(1)[:, :PAIRS]  # no key twice
    values = torch.randint(VALUES, (n, PAIRS), generator=g)
    order = torch.rand(n, PAIRS, generator=g).argsort(1)
    asked, answers = keys.gather(1, order), values.gather(1, order)
    nothing = torch.full_like(asked, VALUES)
    x = [torch.cat([keys, asked], 1), torch.cat([values, nothing], 1)]
    return torch.stack(x, -1), answers


def trained(model: nn.Module, x: Tensor, y: Tensor) -> nn.Module:
    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, int]:
        x, y = batch
        return F.cross_entropy(model(x)[:, -y.shape[1] :].flatten(0, 1), y.flatten()), y.numel()

    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    batches = list(zip(x.split(BATCH), y.split(BATCH), strict=True))
    Trainer(model, objective, adam, clip_norm=1.0, progress=False).fit(batches)
    return model.eval()


def numbers(state: Any) -> int:
    """Numbers of a state; of a cache its keys and values."""
    if isinstance(state, Tensor):
        return state.numel() if state.is_floating_point() else 0
    return sum(numbers(part) for part in state)


def one_variant(name: str, seed: int) -> dict[str, float]:
    words, options, _ = VARIANTS[name]
    seed_all(seed)
    model = reader([KEYS, VALUES + 1], VALUES, words, options)
    trained(model, *bindings(STEPS * BATCH, seed))
    x, y = bindings(TESTED, 10_000)
    with torch.no_grad():
        right = model(x)[:, -PAIRS:].argmax(-1) == y
        state = model.blocks(torch.zeros(1, 2 * PAIRS, model.blocks.input_size))[1]
    found: dict[str, float] = {
        "weights": weights(model),
        "state": numbers(state),
        "recall": right.float().mean().item(),
    }
    return found | lamp(lamp_reader(words, options, seed))


def lamp_reader(words: list[Any], options: dict[str, Any], seed: int) -> nn.Module:
    seed_all(seed)
    model, task = reader([2], 2, words, options), parity(STEPS * BATCH, T, seed=seed)
    return trained(model, task.x[..., None], task.y)


def lamp(model: nn.Module) -> dict[str, float]:
    task = parity(TESTED, LONGEST, seed=10_000)
    with torch.no_grad():
        right = (model(task.x[..., None]).argmax(-1) == task.y).float().mean(0)  # of each step
    return {
        "seen": right[:T].mean().item(),
        "tracking": right[T:LONGER].mean().item(),
        "long": right[LONGEST // 2 :].mean().item(),
    }


def one_seed(seed: int) -> dict[str, float]:
    found = {f"{n}_{k}": v for n in VARIANTS for k, v in one_variant(n, seed).items()}
    found["mingru_unsigned_seen"] = lamp(lamp_reader([UnsignedMinGRUCell], {}, seed))["seen"]
    model = lamp_reader([SignedMinGRUCell], {}, seed)
    SignedMinGRUCell.snap = True
    found["mingru_snapped_long"] = lamp(model)["long"]
    SignedMinGRUCell.snap = False
    for name in AGAIN:
        words, options, _ = VARIANTS[name]
        more = lamp(lamp_reader(words, options, seed + len(SEEDS)))
        found |= {f"{name}_{key}_again": more[key] for key in ("tracking", "long")}
    return found


MEASURED = {
    "weights": "weights of the recall model",
    "state": f"numbers of state after {2 * PAIRS} steps",
    "recall": "share of the values recalled",
    "seen": f"parity, right at steps 1 to {T}",
    "tracking": f"parity, right at steps {T + 1} to {LONGER}",
    "long": f"parity, right at steps {LONGEST // 2 + 1} to {LONGEST}",
}

if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Recall of {PAIRS} bindings ({KEYS} keys, {VALUES} values, chance 1/{VALUES}) and parity "
        f"read to step {T} (chance 1/2): one block at E = 24 or two at E = 16, about {WEIGHTS} "
        f"weights for recall and 8000 for parity, {STEPS} Adam steps at {RATE:g} on batches of "
        f"{BATCH} fresh sequences, gradient norm clipped at 1; {TESTED} new sequences.",
        one_seed,
        SEEDS,
        {
            f"{name}_{key}": f"{what}, {text}"
            for name, (_, _, text) in VARIANTS.items()
            for key, what in MEASURED.items()
        }
        | {
            "mingru_unsigned_seen": f"{MEASURED['seen']}, mingru, size of a gate from −1 to 1",
            "mingru_snapped_long": f"{MEASURED['long']}, mingru, gate from −1 to 1, snapped",
        }
        | {
            f"{name}_{key}_again": f"{MEASURED[key]}, {VARIANTS[name][2]}, seed + {len(SEEDS)}"
            for name in AGAIN
            for key in ("tracking", "long")
        },
    )
    print(path.name)
