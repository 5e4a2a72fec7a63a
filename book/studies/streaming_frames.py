"""Study: a noisy film of digits; which one is on the screen now, said at every frame."""

from __future__ import annotations

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import Digits, load
from companion.look import run_study
from companion.reproduce import cpu_generator, seed_all

SEEDS = range(5)
T, CHANGE, NOISE = 60, 1 / 12, 1.2  # frames, probability of a cut, deviation (of pixels 0 to 1)
ROWS, STEPS, RATE, WIDTH = 32, 250, 1e-2, 32  # the rate was not searched
FILMS = 600  # that the regressions are fitted to
SINCE = (1, 2, 3, 5, 8, 12)
FADES = (0.05, 0.1, 0.15, 0.2, 0.3)


def films(digits: Digits, number: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Frames (N, T, 64), digits (N, T), and how many frames the picture has been on (N, T)."""
    draws = cpu_generator(seed)
    cuts = torch.rand(number, T, generator=draws) < CHANGE
    cuts[:, 0] = True
    which = torch.randint(len(digits), (number, T), generator=draws)
    t = torch.arange(T).expand(number, T)
    start = torch.where(cuts, t, 0).cummax(1).values
    shown = which.gather(1, start)
    clean = digits.images.flatten(1)[shown]
    noise = torch.randn(clean.shape, generator=draws)
    return clean + NOISE * noise, digits.labels[shown], t - start + 1


def faded(x: Tensor, rate: float) -> Tensor:
    """The mean of the past, a frame counting 1 − rate times the next."""
    mean, found = torch.zeros_like(x[:, 0]), []
    for x_t in x.unbind(1):
        mean = mean + rate * (x_t - mean)
        found.append(mean)
    return torch.stack(found, 1)


def line(x: Tensor, y: Tensor) -> LogisticRegression:
    return LogisticRegression(max_iter=300, C=0.01).fit(x.flatten(0, 1), y.flatten())


def probabilities(model: LogisticRegression, x: Tensor) -> Tensor:
    p = torch.from_numpy(model.predict_proba(x.flatten(0, 1)))
    return p.unflatten(0, x.shape[:2])


def filtered(p: Tensor) -> Tensor:
    """Bayes' rule with the law of the cuts, from what each frame says by itself."""
    belief, found = torch.full_like(p[:, 0], 0.1), []
    for p_t in p.unbind(1):
        belief = ((1 - CHANGE) * belief + CHANGE * 0.1) * p_t
        belief = belief / belief.sum(1, keepdim=True)
        found.append(belief)
    return torch.stack(found, 1)


class Viewer(nn.Module):
    """(B, T, 64) -> scores of ten digits at every frame."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = companion.GRU(64, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.gru(x)[0])


def fitted(digits: Digits, seed: int, known: tuple[Tensor, Tensor] | None = None) -> Viewer:
    """A GRU trained on new films at every step, or on drawn ones of those that are known."""
    seed_all(seed)
    draws = cpu_generator(seed)
    model = Viewer()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for step in range(STEPS):
        if known is None:
            x, y, _ = films(digits, ROWS, 1000 * (seed + 1) + step)
        else:
            which = torch.randint(len(known[0]), (ROWS,), generator=draws)
            x, y = known[0][which], known[1][which]
        loss = F.cross_entropy(model(x).mT, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def one_seed(seed: int) -> dict[str, float]:
    train, valid, test = load("digits").split(seed=seed, valid=0.1, test=0.3)
    x, y, _ = films(train, FILMS, 10 * seed)
    new, right, since = films(test, 100, 10 * seed + 1)
    tune, tune_y, _ = films(valid, 100, 10 * seed + 2)

    frame = line(x, y)
    fades = {rate: line(faded(x, rate), y) for rate in FADES}
    tuned = {
        rate: (probabilities(m, faded(tune, rate)).argmax(-1) == tune_y).double().mean()
        for rate, m in fades.items()
    }
    best = max(FADES, key=lambda rate: tuned[rate])
    with torch.no_grad():
        scores = {
            "frame": probabilities(frame, new),
            "fade": probabilities(fades[best], faded(new, best)),
            "filter": filtered(probabilities(frame, new)),
        }
    known = {"gru": None, "gru_600": (x, y), "gru_300": (x[:300], y[:300])}
    viewers = {name: fitted(train, seed, these) for name, these in known.items()}
    with torch.no_grad():
        scores |= {name: viewer(new) for name, viewer in viewers.items()}
    found = {"fade_rate": best}
    for name, s in scores.items():
        hit = (s.argmax(-1) == right).double()
        found[name] = hit.mean().item()
        for k in SINCE:
            found[f"{name}_{k}"] = hit[since == k].mean().item()
    return found


KEYS: dict[str, str | tuple[str, str]] = {"fade_rate": "weight of a new frame in the fading mean"}
for name, words in (
    ("frame", "each frame alone"),
    ("fade", "fading mean of the frames"),
    ("filter", "Bayes filter on each frame's answer"),
    ("gru", "GRU"),
    ("gru_600", "GRU on the films of the regressions"),
    ("gru_300", "GRU on half of them"),
):
    KEYS[name] = f"{words}: accuracy over all frames"
    KEYS |= {f"{name}_{k}": f"{words}: accuracy at frame {k} of a picture" for k in SINCE}

if __name__ == "__main__":
    run_study(
        __file__,
        f"Films of {T} frames: a digit of 8 by 8 pixels under Gaussian noise of deviation "
        f"{NOISE}, new at every frame; at each frame another picture comes with probability "
        f"{CHANGE:.3f}. Pictures of the test are not in the training. Logistic regressions "
        f"on the {FILMS * T:,} frames of {FILMS} films. GRU of {WIDTH} units, {STEPS} steps of "
        f"Adam at {RATE}, {ROWS} films each, always new ones ({STEPS * ROWS * T:,} frames) or "
        f"drawn from those of the regressions. Five seeds of start, division and noise.",
        one_seed,
        SEEDS,
        KEYS,
    )
