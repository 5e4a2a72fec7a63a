"""Study: strings of spoken digits, recognized with CTC; single digits without a network."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.fft import idct
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from companion.data import Recordings, load, pad
from companion.look import run_study
from companion.models import SpeechRecognizer, ctc_beam_search, ctc_greedy, speech_objective
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer
from companion.train.metrics import error_rate

SEEDS = range(5)
STEPS, BATCH, RATE, CLIP = 300, 32, 0.01, 5.0
TRAINED, TESTED = (1, 4), (2, 6)  # digits in a string, at least and at most
BEAM, WEIGHT = 8, 1.0
# about 25,000 weights each
NETWORKS = {
    "both": ({"hidden_size": 48}, "both directions"),
    "forward": ({"hidden_size": 71, "bidirectional": False}, "forward only"),
    "halved": ({"hidden_size": 42, "convolutions": [(24, 5, 2)]}, "convolution of stride 2"),
    "quarter": (
        {"hidden_size": 39, "convolutions": [(24, 5, 2), (24, 5, 2)]},
        "two convolutions of stride 2",
    ),
    "mel": ({"hidden_size": 48}, "both directions, smoothed log-mel"),
}
# what a clock says: four digits from 0000 to 2359
TIMES = [f"{h:02d}{m:02d}" for h in range(24) for m in range(60)]
PREFIXES: dict[str, int] = {}
for said in TIMES:
    for n in range(5):
        PREFIXES[said[:n]] = PREFIXES.get(said[:n], 0) + 1


def clock(prefix: tuple[int, ...], label: int) -> float:
    """log P(label | prefix) if all times are as likely; labels are digits plus one."""
    before = "".join(str(k - 1) for k in prefix)
    after = PREFIXES.get(f"{before}{label - 1}", 0)
    return math.log(after / PREFIXES[before]) if after else -math.inf


def spell(part: Recordings, digits: list[str], seed: int) -> tuple[list[Tensor], list[list[int]]]:
    """Frames and labels of given strings of digits, each digit from a recording drawn anew."""
    draw = torch.Generator().manual_seed(seed)
    of = [(part.labels == k).nonzero()[:, 0] for k in range(10)]
    frames = []
    for text in digits:
        rows = [of[int(k)][torch.randint(len(of[int(k)]), (), generator=draw)] for k in text]
        frames.append(torch.cat([part.frames[i] for i in rows]))
    return frames, [[int(k) + 1 for k in text] for text in digits]


def strings(part: Recordings, number: int, digits: tuple[int, int], seed: int):
    frames, labels = part.strings(number, *digits, seed=seed)
    return frames, [(row + 1).tolist() for row in labels]


def scaled(train: Recordings, mel: bool):
    """A function that brings the features of a frame to mean 0 and deviation 1."""
    turn = torch.from_numpy(idct(np.eye(13), norm="ortho", axis=0)).float()
    every = torch.cat(train.frames)
    every = every @ turn.T if mel else every
    mean, std = every.mean(0), every.std(0)
    return lambda frames: [((x @ turn.T if mel else x) - mean) / std for x in frames]


def said(trainer: Trainer, frames: list[Tensor]) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        return trainer.model.eval()(*pad(frames))


def rate(guess, right) -> float:
    """Word error rate of rows of labels."""
    words = [[[str(k) for k in row] for row in rows] for rows in (guess, right)]
    return error_rate(*words)


def trained(train: Recordings, scale, seed: int, steps: int = STEPS, **options) -> Trainer:
    frames, labels = strings(train, steps * BATCH, TRAINED, seed)
    frames = scale(frames)
    batches = []
    for n in range(0, len(frames), BATCH):
        x, lengths = pad(frames[n : n + BATCH])
        batches.append((x, lengths, labels[n : n + BATCH]))
    seed_all(seed)
    model = SpeechRecognizer(13, 10, **options)
    adam = torch.optim.Adam(model.parameters(), RATE)
    trainer = Trainer(model, speech_objective, adam, clip_norm=CLIP, progress=False)
    trainer.fit(batches, epochs=1)
    return trainer


def place(log_probs: Tensor, frames: int, bounds: list[int], labels: list[int]) -> list[float]:
    """Where in its digit each spike begins, 0 … 1 (more: after it); only for right strings."""
    path = log_probs[:frames].argmax(-1).tolist()
    starts = [t for t, k in enumerate(path) if k and (t == 0 or path[t - 1] != k)]
    if [path[t] for t in starts] != labels:
        return []
    ends = zip(bounds[:-1], bounds[1:], strict=True)
    return [(t + 0.5 - a) / (b - a) for t, (a, b) in zip(starts, ends, strict=True)]


def timed(trainer: Trainer, part: Recordings, scale, seed: int) -> list[float]:
    """Places of the spikes in strings of four digits."""
    draw = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(100):
        rows = torch.randint(len(part), (4,), generator=draw).tolist()
        pieces = [part.frames[i] for i in rows]
        bounds = [0, *np.cumsum([len(x) for x in pieces]).tolist()]
        log_probs, count = said(trainer, scale([torch.cat(pieces)]))
        labels = [int(part.labels[i]) + 1 for i in rows]
        found += place(log_probs[0], int(count[0]), bounds, labels)
    return found


def means(part: Recordings, parts: int) -> np.ndarray:
    """The mean frames of equal parts of each recording, (N, parts · 13)."""
    rows = [[p.mean(0) for p in x.tensor_split(parts)] for x in part.frames]
    return torch.stack([torch.cat(row) for row in rows]).numpy()


def warped(train: Recordings, test: Recordings, scale) -> float:
    """Share of single digits whose nearest template, by dynamic time warping, is right."""
    cut = [x[:30] for x in scale(train.frames)]  # of the few longer ones their beginning
    templates, lengths = pad(cut)
    rows, longest = torch.arange(len(cut)), templates.shape[1]
    right = 0
    for x, label in zip(scale(test.frames), test.labels, strict=True):
        cost = torch.cdist(x[None, :30], templates).permute(1, 2, 0).contiguous()  # (n, 30, N)
        before = torch.full((longest + 1, len(cut)), math.inf)
        before[0] = 0
        for t in range(len(cost)):
            best = torch.minimum(before[1:], before[:-1]) + cost[t]
            now = torch.full_like(before, math.inf)
            for s in range(longest):
                torch.minimum(best[s], now[s] + cost[t, s], out=now[s + 1])
            before = now
        total = before[lengths, rows] / (len(cost) + lengths)
        right += int(train.labels[total.argmin()] == label)
    return right / len(test)


def one_seed(seed: int) -> dict[str, float]:
    """The seed draws the division of the recordings, the strings, and the start."""
    train, _, test = load("spoken-digits").split(seed=seed)
    values: dict[str, float] = {}
    free = strings(test, 300, TESTED, 1000 + seed)
    draw = torch.Generator().manual_seed(seed)
    times = [TIMES[i] for i in torch.randint(len(TIMES), (200,), generator=draw)]
    spoken = spell(test, times, seed)
    for name, (options, _) in NETWORKS.items():
        scale = scaled(train, name == "mel")
        trainer = trained(train, scale, seed, **options)
        log_probs, count = said(trainer, scale(free[0]))
        values[name] = rate(ctc_greedy(log_probs, count), free[1])
        if name in ("both", "forward"):
            places = timed(trainer, test, scale, seed)
            values[f"{name}_place"] = float(np.median(places))
            values[f"{name}_after"] = float(np.mean(np.array(places) > 1))
            single, n = said(trainer, scale(test.frames))
            alone = ctc_greedy(single, n)
            right = [g == [k + 1] for g, k in zip(alone, test.labels.tolist(), strict=True)]
            values[f"{name}_single"] = float(np.mean(right))
        if name == "both":
            words = zip(ctc_greedy(log_probs, count), free[1], strict=True)
            values["ratios"] = float(np.mean([rate([g], [r]) for g, r in words]))
            valid = torch.arange(log_probs.shape[1]) < count[:, None]
            values["blank"] = (log_probs.argmax(-1) == 0)[valid].float().mean().item()
            beams = [
                ctc_beam_search(p[:n], BEAM)[0].labels
                for p, n in zip(log_probs, count.tolist(), strict=True)
            ]
            values["beam"] = rate(beams, free[1])
        if name in ("both", "forward"):
            log_probs, count = said(trainer, scale(spoken[0]))
            both = list(zip(log_probs, count.tolist(), strict=True))
            values[f"{name}_clock_greedy"] = rate(ctc_greedy(log_probs, count), spoken[1])
            beams = [ctc_beam_search(p[:n], BEAM)[0].labels for p, n in both]
            values[f"{name}_clock_beam"] = rate(beams, spoken[1])
            told = []
            for p, n in both:
                found = ctc_beam_search(p[:n], BEAM, scorer=clock, weight=WEIGHT)
                whole = [h.labels for h in found if len(h.labels) == 4]
                told.append(whole[0] if whole else found[0].labels)
            values[f"{name}_clock_model"] = rate(told, spoken[1])
    values["mean_single"] = fitted(train, test, 1)
    values["thirds_single"] = fitted(train, test, 3)
    values["warped_single"] = warped(train, test.subset(torch.arange(100)), scaled(train, False))
    return values


def fitted(train: Recordings, test: Recordings, parts: int) -> float:
    x, held = means(train, parts), means(test, parts)
    mean, std = x.mean(0), x.std(0)
    fit = LogisticRegression(max_iter=2000).fit((x - mean) / std, train.labels.numpy())
    return float(fit.score((held - mean) / std, test.labels.numpy()))


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys = {name: f"word error rate, greedy: {what}" for name, (_, what) in NETWORKS.items()}
    keys["ratios"] = "both directions: mean of each string's own error rate"
    keys["blank"] = "both directions: share of frames in which blank is likeliest"
    keys["beam"] = f"word error rate, both directions, beam of {BEAM}"
    for name in ("both", "forward"):
        what = NETWORKS[name][1]
        keys[f"{name}_place"] = f"{what}: where in its digit a spike begins, median; 1 is its end"
        keys[f"{name}_after"] = f"{what}: share of spikes after the end of their digit"
        keys[f"{name}_single"] = f"{what}: single digits, share right"
        for way, how in (
            ("greedy", "greedy"),
            ("beam", f"beam of {BEAM}"),
            ("model", f"beam of {BEAM} with the clock's language model"),
        ):
            keys[f"{name}_clock_{way}"] = f"word error rate on times of day, {what}, {how}"
    keys["mean_single"] = "single digits, logistic regression on the mean frame: share right"
    keys["thirds_single"] = "the same on the mean frames of three thirds"
    keys["warped_single"] = "single digits, nearest recording by time warping (100): share right"
    path = run_study(
        __file__,
        "Strings of 1 to 4 spoken digits joined from 2,400 recordings, those of the test (2 to 6 "
        "digits) from 300 others of the same speakers, divided anew for each seed; LSTMs of about "
        f"25,000 weights, CTC, {STEPS} steps, Adam at {RATE:g}, batches of {BATCH}.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
