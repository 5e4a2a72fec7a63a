"""Study: what 32 numbers of state still know of last week's temperature."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

import companion
from companion.cells.s4d import FREQUENCIES
from companion.cells.state_space import hippo_legs
from companion.data import load
from companion.look import run_study
from companion.reproduce import cpu_generator, deterministic, seed_all

SEEDS = range(5)
N, WEEK = 32, 168  # numbers of state, hours to be told from them
FIRST, LAST = 2199, 5370  # the longest stretch of hours without a gap
BLOCK = 450  # hours; in turn to fit the readout, to choose the memory, to test, over the seasons
MEMORY = (0.25, 0.5, 1.0, 2.0, 4.0)  # times a week
TURNS = (3.0, 10.0, 30.0)
RIDGE = (1e-6, 1e-4, 1e-2, 1.0)
STEPS, BATCH, RATE = 400, 32, 1e-2  # of the LSTM


def hippo(memory: float, seed: int) -> tuple[Tensor, Tensor]:
    """Ā, B̄ of HiPPO-LegS, zero-order hold."""
    A, B = hippo_legs(N)
    a = torch.linalg.matrix_exp(A / (memory * WEEK))
    return a, torch.linalg.solve(A, (a - torch.eye(N, dtype=a.dtype)) @ B)


def oscillators(memory: float, seed: int) -> tuple[Tensor, Tensor]:
    """The same of S4D-Lin, as blocks of real and imaginary part."""
    A = torch.complex(torch.full((N // 2,), -0.5, dtype=torch.float64), FREQUENCIES["lin"](N))
    a = torch.exp(A / (memory * WEEK))
    turn = torch.stack([torch.stack([a.real, -a.imag], -1), torch.stack([a.imag, a.real], -1)], 1)
    return torch.block_diag(*turn), torch.view_as_real((a - 1) / A).flatten()


def drawn(memory: float, seed: int, orthogonal: bool = False) -> tuple[Tensor, Tensor]:
    """A random matrix whose largest eigenvalue forgets at the rate 1 / memory."""
    g = cpu_generator(seed)
    A = torch.randn(N, N, generator=g, dtype=torch.float64)
    A = torch.linalg.qr(A).Q if orthogonal else A / torch.linalg.eigvals(A).abs().max()
    return math.exp(-1 / (memory * WEEK)) * A, torch.randn(N, generator=g, dtype=torch.float64)


def slow(memory: float, seed: int, turn: float) -> tuple[Tensor, Tensor]:
    """A random turning matrix, damped by a half, in continuous time like HiPPO's."""
    g = cpu_generator(seed)
    K = turn / math.sqrt(N) * torch.randn(N, N, generator=g, dtype=torch.float64)
    eye = torch.eye(N, dtype=K.dtype)
    A, B = K - K.mT - eye / 2, torch.randn(N, generator=g, dtype=torch.float64)
    a = torch.linalg.matrix_exp(A / (memory * WEEK))
    return a, torch.linalg.solve(A, (a - eye) @ B)


def states(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """(T, N), every state."""
    h, found = torch.zeros_like(b), []
    for v in x:
        h = a @ h + b * v
        found.append(h)
    return torch.stack(found)


def ends(part: int, length: int = WEEK) -> Tensor:
    """Last hours of the windows of this length that lie within the blocks of a part."""
    t = torch.arange(length - 1, LAST - FIRST)
    block = t // BLOCK
    return t[(block % 3 == part) & ((t - length + 1) // BLOCK == block)]


def told(tried: list[Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Errors (M, WEEK) of the week before each hour, read out linearly: fitted and tested hours.

    Of the states tried (T, N) and the strengths of the ridge the best by the second part.
    """
    fit, choose, test = (ends(part) for part in range(3))
    found = []
    for s in tried:
        u = torch.cat([s / (s[fit].std(0) + 1e-12), torch.ones(len(s), 1, dtype=s.dtype)], 1)
        for ridge in RIDGE:
            eye = ridge * len(fit) * torch.eye(N + 1, dtype=u.dtype)
            w = torch.linalg.solve(u[fit].mT @ u[fit] + eye, u[fit].mT @ week(x, fit))
            own, error, new = (u[part] @ w - week(x, part) for part in (fit, choose, test))
            found.append((rmse(error), own, new))
    return min(found, key=lambda errors: errors[0])[1:]


def week(x: Tensor, t: Tensor) -> Tensor:
    """(M, WEEK), the hours t, t - 1, …"""
    return x[t[:, None] - torch.arange(WEEK)]


def ring(x: Tensor, t: Tensor, every: int = 6) -> Tensor:
    """Errors (M, WEEK) of straight lines between the last N hours that were kept."""
    q, found = torch.arange(WEEK, dtype=x.dtype), []
    for now in t.tolist():
        kept = now - now % every - every * torch.arange(N)
        age, value = (now - kept).to(x.dtype), x[kept.clamp(min=0)]
        j = torch.searchsorted(age, q).clamp(1, N - 1)
        w = ((q - age[j - 1]) / (age[j] - age[j - 1])).clamp(0, 1)
        found.append(torch.lerp(value[j - 1], value[j], w))
    return torch.stack(found) - week(x, t)


def rmse(e: Tensor) -> float:
    return e.square().mean().sqrt().item()


class Teller(nn.Module):
    """An LSTM whose h and c, N numbers together, must tell the week."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = companion.LSTM(1, N // 2, batch_first=True), nn.Linear(N, WEEK)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cat(self.lstm(x)[1], -1)[-1])


def lstm_states(x: Tensor, seed: int) -> Tensor:
    """(T, N), each read from a week and a half, as in the training."""
    seed_all(seed)
    g, model, x = cpu_generator(seed), Teller(), x.float()
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    length = WEEK * 3 // 2
    windows = x[ends(0, length)[:, None] - torch.arange(length).flip(0)]
    for _ in range(STEPS):
        batch = windows[torch.randint(len(windows), (BATCH,), generator=g)]
        loss = (model(batch.unsqueeze(-1)) - batch[:, -WEEK:].flip(1)).square().mean()
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
    front = x[:1].expand(length - 1)  # before the first hour
    windows = torch.cat([front, x]).unfold(0, length, 1)  # as long as those of the training
    with torch.no_grad():
        parts = windows.unsqueeze(-1).split(512)
        return torch.cat([torch.cat(model.lstm(w)[1], -1)[-1] for w in parts]).double()


def one_seed(seed: int) -> dict[str, float]:
    x = load("weather").select("temp")[FIRST:LAST, 0].double()
    mean, unit = x[ends(0)].mean(), x[ends(0)].std()
    x = (x - mean) / unit
    own, found = {}, {}
    ways = {"hippo": hippo, "lin": oscillators, "random": drawn}
    ways["orthogonal"] = lambda memory, seed: drawn(memory, seed, True)
    for name, way in ways.items():
        own[name], found[name] = told([states(*way(m, seed), x) for m in MEMORY], x)
    tried = [states(*slow(m, seed, turn), x) for m in MEMORY for turn in TURNS]
    own["slow"], found["slow"] = told(tried, x)
    found["ring"] = ring(x, ends(2))
    own["lstm"], found["lstm"] = told([lstm_states(x, seed)], x)
    fit, test = week(x, ends(0)), week(x, ends(2))
    V = torch.linalg.svd(fit - fit.mean(0), full_matrices=False).Vh[:N]
    new = test - fit.mean(0)
    found["best"] = new @ V.mT @ V - new
    own["mean"] = fit.mean(1, keepdim=True) - fit
    found["mean"] = test.mean(1, keepdim=True) - test
    result = {name: rmse(e) * unit.item() for name, e in found.items()}
    result |= {f"{name}_fit": rmse(own[name]) * unit.item() for name in FITTED}
    return result | {f"{name}_old": rmse(e[:, 120:]) * unit.item() for name, e in found.items()}


WHAT = {
    "hippo": "HiPPO-LegS",
    "lin": "S4D-Lin",
    "random": "random matrix",
    "orthogonal": "random orthogonal matrix, times a decay",
    "slow": "random turning matrix in continuous time",
    "ring": "every sixth hour, 32 kept",
    "lstm": "trained LSTM, 16 units, h and c",
    "best": "32 principal components of the week itself",
    "mean": "the week's own mean",
}
FITTED = ("hippo", "lstm", "mean")  # those whose errors in the hours of the fit are kept too

if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Hourly temperature at JFK, a stretch without gaps, April to August 2013, in blocks of "
        f"{BLOCK} hours that serve in turn to fit, to choose and to test: the last {WEEK} hours "
        f"from {N} numbers of state, by a ridge regression; of five lengths of memory and four "
        f"strengths of the ridge (and, of the random turning matrix, three speeds {TURNS}) the "
        f"best. LSTM: {STEPS} Adam steps at {RATE:g} on batches of {BATCH} windows. old: hours "
        f"121 to {WEEK} back.",
        one_seed,
        SEEDS,
        {k: (f"RMSE, {w}", "°F") for k, w in WHAT.items()}
        | {f"{k}_fit": (f"RMSE where it was fitted, {WHAT[k]}", "°F") for k in FITTED}
        | {f"{k}_old": (f"RMSE of hours 121 to {WEEK} back, {w}", "°F") for k, w in WHAT.items()},
    )
    print(path.name)
