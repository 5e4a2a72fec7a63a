"""Study: what the words to come are worth to a tagger, on English addresses and Turkish sentences.

Case and punctuation are restored in State of the Union addresses, and parts of speech are told in
Turkish. A bidirectional LSTM stands against LSTMs of one direction with as many weights, at the
same number of steps of training; one of them answers some words late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import companion
from companion.data import (
    Tagged,
    batches,
    build_vocab_from_iterator,
    case_and_punctuation,
    load,
    pad,
)
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
WORDS, EMBEDDING, HIDDEN, ALONE = 4000, 64, 64, 100  # units of each direction; of one alone
LENGTH, BATCH, RATE = 50, 32, 1e-2
DELAYS, LOOKS = (1, 2, 4), (0, 1, 2, 4, 8, 16)
LONGER, LATER = (2, 4), ("both", "late_2", "late_4")  # tested again after so many passes
EVERY = 4  # passages of the test, one in four: looking ahead reads each of them fifty times
HELD_OUT = 10  # the newest addresses are for the test

# -- English: passages, labels by word ---------------------------------------------------------

addresses = [case_and_punctuation(address.text) for address in load("state-of-the-union")]
learn, held = addresses[:-HELD_OUT], addresses[-HELD_OUT:]
vocab = build_vocab_from_iterator(
    (words for words, _ in learn), specials=["<unk>"], max_tokens=WORDS
)
vocab.set_default_index(0)
labels = build_vocab_from_iterator(names for _, names in learn)
labels.set_default_index(0)
CAPITAL = torch.tensor([not name.startswith("lower") for name in labels.get_itos()])
STOP, COMMA = (torch.tensor([name.endswith(mark) for name in labels.get_itos()]) for mark in ".,")


def passages(texts: list[tuple[list[str], list[str]]]) -> tuple[Tensor, Tensor]:
    """Words and labels, each (N, LENGTH), cut without regard to sentences."""
    parts = []
    for words, names in texts:
        both = torch.tensor([vocab(words), labels(names)])
        parts += both[:, : both.shape[1] // LENGTH * LENGTH].view(2, -1, LENGTH).unbind(1)
    x, y = torch.stack(parts, 1)
    return x, y


class Tagger(nn.Module):
    """Words → state → scores of the labels; with a delay, the label of ``delay`` words ago."""

    def __init__(self, way: str, delay: int = 0) -> None:
        super().__init__()
        self.way, self.delay = way, delay
        both = way == "both"
        width = HIDDEN if both else ALONE
        self.words = nn.Embedding(len(vocab), EMBEDDING)
        self.lstm = companion.LSTM(
            EMBEDDING, width, batch_first=True, bidirectional=both, forget_bias=1.0
        )
        self.scores = nn.Linear(2 * width if both else width, len(labels))

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (0, self.delay))  # the unknown word, while the last answers are due
        x = x.flip(1) if self.way == "backward" else x
        y = self.scores(self.lstm(self.words(x))[0])
        y = y.flip(1) if self.way == "backward" else y
        return y[:, self.delay :]


def objective(model: nn.Module, batch: tuple) -> tuple:
    x, y = batch
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten()), y.numel()


def f1(guess: Tensor, true: Tensor) -> float:
    """2 · hits / (guessed + true)."""
    return (2 * (guess & true).sum() / (guess.sum() + true.sum()).clamp(min=1)).item()


def trained(way: str, seed: int, delay: int, counts: Sequence[int]) -> Iterator[Tagger]:
    """The tagger after each of some counts of passes, which grow."""
    seed_all(seed)
    model = Tagger(way, delay)
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    trainer = Trainer(model, objective, adam, clip_norm=1.0, progress=False)
    seen, done = batches(*passages(learn), batch_size=BATCH, shuffle=True, seed=seed), 0
    for count in counts:
        with torch.enable_grad():
            trainer.fit(seen, epochs=count - done)
        done = count
        yield model.eval()


@torch.no_grad()
def looking_ahead(model: Tagger, x: Tensor, k: int) -> Tensor:
    """Labels when each is due k words after its word: the rest is not there yet."""
    ends = range(1, x.shape[1] + 1)
    return torch.stack([model(x[:, : t + k])[:, t - 1].argmax(-1) for t in ends], 1)


@torch.no_grad()
def english(seed: int) -> dict[str, float]:
    x, y = (part[::EVERY] for part in passages(held))
    values = {}
    runs = [(way, way, 0) for way in ("both", "forward", "backward")]
    runs += [(f"late_{k}", "forward", k) for k in DELAYS]
    for key, way, delay in runs:
        later = LONGER if key in LATER else ()
        models = trained(way, seed, delay, (1, *later))
        model = next(models)
        scores = model(x)
        guess = scores.argmax(-1)
        chance = scores.softmax(-1)[..., STOP].sum(-1)
        values[f"{key}_stop_best"] = max(f1(chance > k / 50, STOP[y]) for k in range(50))
        values[key] = (guess == y).float().mean().item()
        for name, kind in (("capital", CAPITAL), ("stop", STOP), ("comma", COMMA)):
            values[f"{key}_{name}"] = f1(kind[guess], kind[y])
        if way == "both":
            for k in LOOKS:
                ahead = looking_ahead(model, x, k)
                values[f"look_{k}"] = (ahead == y).float().mean().item()
                values[f"look_{k}_stop"] = f1(STOP[ahead], STOP[y])
        for count, model in zip(later, models, strict=True):
            guess = model(x).argmax(-1)
            values[f"{key}_after_{count}"] = (guess == y).float().mean().item()
            values[f"{key}_after_{count}_stop"] = f1(STOP[guess], STOP[y])
    return values


# -- Turkish: whole sentences, one tag a word -----------------------------------------------------

ENDING, EPOCHS = 3, 3  # last letters of a word
UNITS = {"both": 48, "forward": 77, "backward": 77}
treebank = load("turkish-treebank").split()
tags = build_vocab_from_iterator(treebank.train.tags)


def forms(word: str) -> tuple[str, str]:
    """A word and its ending, without case."""
    return word.lower(), word.lower()[-ENDING:]


known = [
    build_vocab_from_iterator(
        ([forms(word)[k] for word in words] for words in treebank.train.words), 2, ["<unk>"]
    )
    for k in (0, 1)
]
for names in known:
    names.set_default_index(0)


class Speech(nn.Module):
    """Words and their endings → state → scores of the parts of speech."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, both = way, way == "both"
        self.words = nn.Embedding(len(known[0]), 48)
        self.endings = nn.Embedding(len(known[1]), 24)
        self.lstm = companion.LSTM(
            72, UNITS[way], batch_first=True, bidirectional=both, forget_bias=1.0
        )
        self.scores = nn.Linear(UNITS[way] * (2 if both else 1), len(tags))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        e = torch.cat([self.words(x[..., 0]), self.endings(x[..., 1])], -1)
        if self.way == "backward":
            return self.scores(turned(self.lstm(turned(e, lengths), lengths=lengths)[0], lengths))
        return self.scores(self.lstm(e, lengths=lengths)[0])


def turned(x: Tensor, lengths: Tensor) -> Tensor:
    """Each row reversed within its length."""
    steps = torch.arange(x.shape[1])
    order = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return x.gather(1, order[..., None].expand_as(x))


def tag_loss(model: nn.Module, batch: tuple) -> tuple:
    x, lengths, y = batch
    scores, real = model(x, lengths), y >= 0
    right = (scores.argmax(-1) == y)[real].float().mean()
    return F.cross_entropy(scores[real], y[real]), int(real.sum()), {"accuracy": right}


def sentences(part: Tagged, size: int, shuffle: bool, seed: int = 0):
    x = [
        torch.tensor([[v[form] for v, form in zip(known, forms(w), strict=True)] for w in words])
        for words in part.words
    ]
    y = [torch.tensor(tags(names)) for names in part.tags]
    collate = lambda x, y: (*pad(x), pad(y, -1)[0])  # noqa: E731
    return batches(x, y, batch_size=size, shuffle=shuffle, seed=seed, collate=collate)


def turkish(seed: int) -> dict[str, float]:
    values = {}
    for way in UNITS:
        seed_all(seed)
        model = Speech(way)
        adam = torch.optim.Adam(model.parameters(), lr=RATE)
        trainer = Trainer(model, tag_loss, adam, clip_norm=1.0, progress=False)
        trainer.fit(sentences(treebank.train, BATCH, True, seed), epochs=EPOCHS)
        test = trainer.evaluate(sentences(treebank.test, 500, False))
        values[f"speech_{way}"] = test.metrics["accuracy"]
    return values


def one_seed(seed: int) -> dict[str, float]:
    return english(seed) | turkish(seed)


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    meanings = {
        "both": "both directions",
        "forward": "forward alone",
        "backward": "backward alone",
        **{f"late_{k}": f"forward, the answer {k} words late" for k in DELAYS},
    }
    keys = {key: f"English, accuracy of the label, {what}" for key, what in meanings.items()}
    for name, kind in (("capital", "capitals"), ("stop", "full stops"), ("comma", "commas")):
        keys |= {
            f"{key}_{name}": f"English, F1 of {kind}, {what}" for key, what in meanings.items()
        }
    for key, what in meanings.items():
        keys[f"{key}_stop_best"] = f"English, F1 of full stops at the best threshold, {what}"
    for k in LOOKS:
        what = f"both directions, cut off {k} words after the word that is labeled"
        keys[f"look_{k}"] = f"English, accuracy of the label, {what}"
        keys[f"look_{k}_stop"] = f"English, F1 of full stops, {what}"
    for key in LATER:
        for count in LONGER:
            what = f"{meanings[key]}, after {count} passes"
            keys[f"{key}_after_{count}"] = f"English, accuracy of the label, {what}"
            keys[f"{key}_after_{count}_stop"] = f"English, F1 of full stops, {what}"
    for way in UNITS:
        keys[f"speech_{way}"] = f"Turkish, accuracy of the part of speech, {meanings[way]}"
    path = run_study(
        __file__,
        f"English: case and marks of words in the addresses but the last {HELD_OUT}, one pass "
        f"over passages of {LENGTH} words, or as many as the key says; an LSTM with {HIDDEN} "
        f"units in each of two directions, or {ALONE} in one, which has as many weights; test on "
        f"one in {EVERY} of the passages of the last {HELD_OUT}. Turkish: parts of speech, "
        f"{EPOCHS} passes, {UNITS['both']} or {UNITS['forward']} units. Adam at {RATE:g}, batches "
        f"of {BATCH}.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
