"""Study: motions of a wrist, decided after every frame; stopping early; lost frames."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import Recordings, load
from companion.look import run_study
from companion.reproduce import cpu_generator, seed_all

SEEDS = range(5)
STEPS, RATE = 120, 1e-2  # neither was searched
WIDTH = {"gru": 24, "s4d": 52, "s4d_lin": 52}  # 2,404 and 2,344 weights
SEEN = (5, 10, 15, 20, 30, 50, 100)
SURE = (0.6, 0.8, 0.9, 0.95)


class Watcher(nn.Module):
    """(B, T, 6) -> scores of four motions after every frame (B, T, 4)."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        name, _, lin = cell.partition("_")  # "lin": nothing bent between layer and output
        options = {"order": 16} if name == "s4d" else {}
        self.layer = companion.Recurrence(name, 6, WIDTH[cell], **options)
        self.out = nn.Linear(WIDTH[cell], 4)
        self.bend = F.gelu if name == "s4d" and not lin else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.bend(self.layer(x)[0]))

    @torch.no_grad()
    def after(self, x: Tensor, gaps: Tensor) -> Tensor:
        """Scores (B, 4) after frames (B, T, 6) of which each stands for so many; S4D alone."""
        log_dt, state = self.layer.log_dt_l0, None
        plain = log_dt.clone()
        for x_t, gap in zip(x.unbind(1), gaps.tolist(), strict=True):
            log_dt.copy_(plain + math.log(gap))
            y, state = self.layer.step(x_t, state)
        log_dt.copy_(plain)
        return self.out(self.bend(y))


def frames(rows: Recordings, like: Recordings) -> Tensor:
    """(N, 100, 6), by the mean and deviation of the channels of other recordings."""
    known = torch.cat(like.frames)
    return (torch.stack(rows.frames) - known.mean(0)) / known.std(0)


def fitted(cell: str, x: Tensor, labels: Tensor, seed: int, every: bool = True) -> Watcher:
    seed_all(seed)
    model = Watcher(cell)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        scores = model(x) if every else model(x)[:, -1:]
        loss = F.cross_entropy(scores.mT, labels[:, None].expand(scores.shape[:2]))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def stopped(scores: Tensor, sure: float) -> tuple[Tensor, Tensor]:
    """The first frame at which a class is as likely as this (else the last), and that class."""
    p, said = scores.softmax(-1).max(-1)
    enough = p >= sure
    enough[:, -1] = True
    first = enough.int().argmax(1)
    return first + 1, said.gather(1, first[:, None])[:, 0]


def share(said: Tensor, labels: Tensor) -> float:
    return (said == labels).double().mean().item()


def one_part(seed: int, learn: Recordings, judge: Recordings) -> dict[str, float]:
    x, new = frames(learn, learn), frames(judge, learn)
    right = judge.labels
    models = {
        "every": fitted("gru", x, learn.labels, seed),
        "last": fitted("gru", x, learn.labels, seed, every=False),
        "s4d": fitted("s4d", x, learn.labels, seed),
        "s4d_lin": fitted("s4d_lin", x, learn.labels, seed),
    }
    found = {}
    with torch.no_grad():
        scores = {name: model(new) for name, model in models.items()}
    for name, s in scores.items():
        for t in SEEN:
            found[f"{name}_{t}"] = share(s[:, t - 1].argmax(-1), right)
    for sure in SURE:
        when, said = stopped(scores["every"], sure)
        found[f"sure_{sure}"] = share(said, right)
        found[f"time_{sure}"] = when.double().mean().item()
        at = round(when.double().mean().item()) - 1
        found[f"fixed_{sure}"] = share(scores["every"][:, at].argmax(-1), right)
        # each recording at the times of all: what shuffled times give in the mean
        found[f"shuffled_{sure}"] = share(scores["every"][:, when - 1].argmax(-1), right[:, None])

    # each frame is lost with probability 1/2, the last is not
    kept = torch.rand(100, generator=cpu_generator(seed)) < 0.5
    kept[-1] = True
    at = kept.nonzero()[:, 0]
    gaps = at.diff(prepend=torch.tensor([-1]))
    came = new[:, at]
    later = came.repeat_interleave(gaps, 1)  # a frame stands for those lost before it
    i = torch.where(kept, torch.arange(100), -1).cummax(0).values
    last = torch.where((i >= 0)[:, None], new[:, i.clamp(min=0)], 0.0)
    zero = new * kept[:, None]
    lossy = {"skip": came, "last": last, "next": later, "zero": zero}
    for name in ("every", "s4d"):
        for way, rows in lossy.items():
            found[f"{name}_{way}"] = share(models[name](rows)[:, -1].argmax(-1), right)
    found["s4d_dt"] = share(models["s4d"].after(came, gaps).argmax(-1), right)
    return found


def one_seed(seed: int) -> dict[str, float]:
    """Mean of the two ways round: fitted to one part, judged on the other."""
    parts = load("basic-motions")
    first = one_part(seed, parts["train"], parts["test"])
    other = one_part(seed, parts["test"], parts["train"])
    return {key: (first[key] + other[key]) / 2 for key in first}


KEYS: dict[str, str | tuple[str, str]] = {}
for model, words in (
    ("every", "GRU fitted at every frame"),
    ("last", "GRU fitted at the last frame"),
    ("s4d", "S4D with a GELU behind it, fitted at every frame"),
    ("s4d_lin", "S4D with nothing behind it, fitted at every frame"),
):
    KEYS |= {f"{model}_{t}": f"{words}: accuracy after {t} frames" for t in SEEN}
for sure in SURE:
    KEYS[f"sure_{sure}"] = f"accuracy when stopped at a probability of {sure}"
    KEYS[f"time_{sure}"] = (f"mean time of stopping at a probability of {sure}", "frames")
    KEYS[f"fixed_{sure}"] = f"accuracy of all after the mean time of stopping at {sure}"
    KEYS[f"shuffled_{sure}"] = f"accuracy when the times of stopping at {sure} are shuffled"
for model in ("every", "s4d"):
    for way, words in (
        ("skip", "left out"),
        ("last", "the last that came in their place"),
        ("next", "the next that comes in their place"),
        ("zero", "zeros in their place"),
    ):
        KEYS[f"{model}_{way}"] = f"half of the frames lost, {words}: accuracy at the end"
KEYS["s4d_dt"] = "half of the frames lost, the step Δ as long as the gap: accuracy at the end"

if __name__ == "__main__":
    run_study(
        __file__,
        f"BasicMotions, 40 recordings to learn from and 40 to judge on, and the other way round "
        f"(mean of the two). Networks of about 2,400 weights with a score after every frame, "
        f"{STEPS} steps of Adam at {RATE} on all 40 at once. Five starts.",
        one_seed,
        SEEDS,
        KEYS,
    )
