"""Study: what the layers of two small language models know, one reading on, one reading back.

Words without case and punctuation. A linear probe reads from each layer whether the word had a
capital, and whether a mark followed it. Beside the trained models: the same models untrained.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from companion.data import build_vocab_from_iterator, case_and_punctuation, load, stream_batches
from companion.look import run_study
from companion.models import LanguageModel, language_model_objective
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
WORDS, HIDDEN, ROWS, STEPS, EPOCHS, RATE, RIDGE = 3000, 96, 8, 35, 4, 5e-3, 10.0
HELD = (2003, 2011)
TRAIN = tuple(year for year in range(2001, 2017) if year not in HELD)
LAYERS = {
    "table": "the embeddings alone",
    "one": "first layers, both directions",
    "two": "second layers, both directions",
    "two_on": "second layer, reading on alone",
    "two_back": "second layer, reading back alone",
    "all": "embeddings and all layers side by side",
}


@functools.cache
def texts() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], int]:
    """Tokens (N,) and labels (N, 2), capital and mark, of what is read and of what is held out."""
    spoken = {a.year: case_and_punctuation(a.text) for a in load("state-of-the-union")}
    vocab = build_vocab_from_iterator(
        (spoken[year][0] for year in TRAIN), specials=["<unk>"], max_tokens=WORDS
    )
    vocab.set_default_index(0)

    def joined(years: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        words = [word for year in years for word in spoken[year][0]]
        labels = [label for year in years for label in spoken[year][1]]
        capital = [not label.startswith("lower") for label in labels]
        mark = [not label[-1].isalpha() for label in labels]
        return torch.tensor(vocab(words)), torch.tensor([capital, mark]).T

    return joined(TRAIN), joined(HELD), len(vocab)


def models(seed: int, epochs: int) -> list[LanguageModel]:
    """One model that reads on, and one that reads the text from its end."""
    (read, _), _, size = texts()
    both = []
    for tokens in (read, read.flip(0)):
        seed_all(seed)
        model = LanguageModel(size, HIDDEN, HIDDEN, "lstm", 2)
        if epochs:
            train = stream_batches(tokens, ROWS, STEPS)
            adam = torch.optim.Adam(model.parameters(), lr=RATE)
            Trainer(
                model,
                language_model_objective,
                adam,
                step_scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(
                    adam, epochs * len(train)
                ),
                clip_norm=1.0,
                stateful=True,
                progress=False,
            ).fit(train, epochs=epochs)
        both.append(model.eval())
    return both


@torch.no_grad()
def features(both: list[LanguageModel], tokens: Tensor) -> dict[str, Tensor]:
    """What each layer says at each word, (N, F)."""
    found = []
    for model, order in zip(both, (tokens, tokens.flip(0)), strict=True):
        y, rows = model.embed(order[None]), []
        for layer in model.layers:
            rows.append(y[0])
            y, _ = layer(y)
        rows.append(y[0])
        found.append(rows if order is tokens else [row.flip(0) for row in rows])
    on, back = found
    pairs = [torch.cat(pair, 1) for pair in zip(on, back, strict=True)]
    return {
        "table": pairs[0],
        "one": pairs[1],
        "two": pairs[2],
        "two_on": on[2],
        "two_back": back[2],
        "all": torch.cat(pairs, 1),
    }


def auc(score: Tensor, label: Tensor) -> float:
    """How often a positive scores above a negative; a tie is half."""
    _, place, count = score.unique(return_inverse=True, return_counts=True)  # ties share a rank
    rank = (count.cumsum(0) - (count - 1) / 2).double()[place]
    n = int(label.sum())
    return float((rank[label].sum() - n * (n + 1) / 2) / (n * (len(label) - n)))


def within(score: Tensor, label: Tensor, tokens: Tensor) -> float:
    """The same among occurrences of one word, averaged over words: what the word says is out.

    Words with five of each kind count, by how often they occur.
    """
    total = weight = 0.0
    for word in tokens.unique()[1:]:  # without <unk>, which is many words
        here = tokens == word
        positives = int(label[here].sum())
        if 5 <= positives <= int(here.sum()) - 5:
            total += int(here.sum()) * auc(score[here].round(decimals=4), label[here])
            weight += int(here.sum())
    return total / weight


def probed(fit: Tensor, labels: Tensor, held: Tensor) -> Tensor:
    """Scores (N, 2) of held-out words by a linear probe, least squares with a ridge."""
    mean, std = fit.mean(0), fit.std(0) + 1e-6
    x, z = ((part - mean) / std for part in (fit, held))
    gram = x.T @ x + RIDGE * torch.eye(x.shape[1])
    y = labels.float() - labels.float().mean(0)
    return z @ torch.linalg.solve(gram, x.T @ y)


@functools.cache
def counted() -> dict[str, float]:
    """AUC of the share that each word had in the text read; rare ones lean to the mean."""
    (read, labels), (held, true), size = texts()
    seen = torch.bincount(read, minlength=size) + 1.0
    values = {}
    for k, label in enumerate(("capital", "mark")):
        had = torch.bincount(read[labels[:, k]], minlength=size) + labels[:, k].float().mean()
        values[f"{label}_counts"] = auc((had / seen)[held], true[:, k])
    return values


def one_seed(seed: int) -> dict[str, float]:
    (read, labels), (held, true), _ = texts()
    values = dict(counted())
    for kind, epochs in (("", EPOCHS), ("_untrained", 0)):
        both = models(seed, epochs)
        fit, test = features(both, read), features(both, held)
        for layer in LAYERS:
            scores = probed(fit[layer], labels, test[layer])
            for k, label in enumerate(("capital", "mark")):
                name, score, is_so = f"{label}_{layer}{kind}", scores[:, k], true[:, k]
                values[name] = auc(score, is_so)
                values[f"{name}_within"] = within(score, is_so, held)
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    (read, _), (held, _), _ = texts()
    path = run_study(
        __file__,
        f"AUC of linear probes. Two language models, on and back, each of two LSTM layers, E = H "
        f"= {HIDDEN}, {WORDS} words, {EPOCHS} epochs of Adam from {RATE:g} to 0 along a cosine "
        f"over {len(read)} words of 14 State of the Union addresses in {ROWS} streams; probes by "
        f"least squares on the same text, measured on {len(held)} words of 2003 and 2011.",
        one_seed,
        SEEDS,
        {
            f"{label}_{layer}{kind}{end}": f"{said}; {what}{how}{where}"
            for label, said in {"capital": "capital", "mark": "mark behind the word"}.items()
            for layer, what in LAYERS.items()
            for kind, how in {"": "", "_untrained": ", untrained"}.items()
            for end, where in {"": "", "_within": "; among occurrences of a word"}.items()
        }
        | {
            "capital_counts": "capital; how often this word had one",
            "mark_counts": "mark behind the word; how often this word had one",
        },
    )
    print(path.name)
