"""Study: what each layer of a Turkish tagger holds, read off by a linear probe.

The probes ask at every word for its ending (its form), for its part of speech (its role), and for
the part of speech of the next word (its surroundings). Beside the tagger stand the same network
before training, and one that was trained to tell the endings.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from tagging import BATCH, RATE, forms, known, sentences, tag_loss, tags, treebank
from torch import Tensor, nn

from companion import Recurrence
from companion.data import Tagged
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
DEPTH, WIDTH, PASSES, PROBED = 3, 64, 3, 1500
ENDINGS, RIDGE = 40, 1e-3
QUESTIONS = {
    "ending": "its last letters",
    "role": "its part of speech",
    "next": "the part of speech of the next word",
}


class Deep(nn.Module):
    """Words and endings → three bidirectional layers → scores; every layer can be read."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(len(known[0]), 40)
        self.endings = nn.Embedding(len(known[1]), 24)
        self.layers = nn.ModuleList(
            Recurrence("lstm", below, WIDTH // 2, bidirectional=True, forget_bias=1.0)
            for below, _ in pairwise([WIDTH] * (DEPTH + 1))
        )
        self.scores = nn.Linear(WIDTH, answers)

    def read(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        """The embedding and each layer's outputs, each (B, T, WIDTH)."""
        seen = [torch.cat([self.words(x[..., 0]), self.endings(x[..., 1])], -1)]
        for layer in self.layers:
            seen.append(layer(seen[-1], lengths=lengths)[0])
        return seen

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.scores(self.read(x, lengths)[-1])


def asked(part: Tagged, count: int) -> dict[str, Tensor]:
    """Answers to the questions, one for each word of some sentences; −1: not asked."""
    common = known[1].get_itos()[1 : ENDINGS + 1]
    place = {ending: k for k, ending in enumerate(common)}
    words, names = part.words[:count], part.tags[:count]
    return {
        "ending": torch.tensor([place.get(forms(w)[1], -1) for ws in words for w in ws]),
        "role": torch.tensor([k for ts in names for k in tags(ts)]),
        "next": torch.tensor([k for ts in names for k in [*tags(ts)[1:], -1]]),
    }


@torch.no_grad()
def features(model: Deep, part: Tagged, count: int) -> list[Tensor]:
    """What each layer holds, one row for each word of some sentences."""
    rows: list[list[Tensor]] = []
    for (x, lengths, y), _ in zip(sentences(part, 500, False), range(0, count, 500), strict=False):
        rows.append([layer[y >= 0] for layer in model.read(x, lengths)])
    return [torch.cat(layer) for layer in zip(*rows, strict=True)]


def probe(seen: Tensor, y: Tensor, unseen: Tensor, true: Tensor) -> float:
    """Accuracy of a linear map, fitted to one-hot answers by least squares."""

    def ready(x: Tensor) -> Tensor:
        x = (x - seen.mean(0)) / seen.std(0)
        return torch.cat([x, x.new_ones(len(x), 1)], 1).double()

    x, z, kept, due = ready(seen)[y >= 0], ready(unseen)[true >= 0], y[y >= 0], true[true >= 0]
    target = nn.functional.one_hot(kept, int(y.max()) + 1).double()
    ridge = RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype)
    weights = torch.linalg.solve(x.T @ x + ridge, x.T @ target)
    return ((z @ weights).argmax(1) == due).double().mean().item()


def form_loss(model: nn.Module, batch: tuple) -> tuple:
    """As ``tag_loss``, but the common endings are asked for."""
    x, lengths, y = batch
    place = x[..., 1] - 1
    return tag_loss(model, (x, lengths, place.where((y >= 0) & (place < ENDINGS), -1)))


def one_seed(seed: int) -> dict[str, float]:
    values = {}
    y, true = asked(treebank.train, PROBED), asked(treebank.test, len(treebank.test))
    for name in QUESTIONS:
        commonest, due = y[name][y[name] >= 0].mode().values, true[name][true[name] >= 0]
        values[f"majority_{name}"] = (due == commonest).double().mean().item()
    for state, answers, loss in (
        ("new", len(tags), None),
        ("trained", len(tags), tag_loss),
        ("form", ENDINGS, form_loss),
    ):
        seed_all(seed)
        model = Deep(answers)
        if loss is not None:
            adam = torch.optim.Adam(model.parameters(), lr=RATE)
            trainer = Trainer(model, loss, adam, clip_norm=1.0, progress=False)
            trainer.fit(sentences(treebank.train, BATCH, True, seed), epochs=PASSES)
            test = trainer.evaluate(sentences(treebank.test, 500, False))
            values[f"{state}_accuracy"] = test.metrics["accuracy"]
        model.eval()
        seen = features(model, treebank.train, PROBED)
        unseen = features(model, treebank.test, len(treebank.test))
        for k in range(DEPTH + 1):
            for name in QUESTIONS:
                answer = probe(seen[k], y[name], unseen[k], true[name])
                values[f"{state}_{k}_{name}"] = answer
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    networks = {
        "new": "network before training",
        "trained": "network trained on parts of speech",
        "form": "network trained on endings",
    }
    keys = {
        f"{state}_accuracy": f"test accuracy of the {networks[state]}"
        for state in ("trained", "form")
    }
    for name, what in QUESTIONS.items():
        keys[f"majority_{name}"] = f"always the commonest answer, asked for {what}: accuracy"
    for state, network in networks.items():
        for k in range(DEPTH + 1):
            place = f"layer {k}" if k else "the embedding"
            for name, what in QUESTIONS.items():
                keys[f"{state}_{k}_{name}"] = f"{network}, {place} asked for {what}: accuracy"
    path = run_study(
        __file__,
        f"A stack of {DEPTH} bidirectional LSTMs of {WIDTH} units, trained to tell Turkish parts "
        f"of speech, or the endings of words ({PASSES} passes, batches of {BATCH}, Adam at "
        f"{RATE:g}). Linear probes by least squares on {PROBED} of the sentences trained on, "
        f"accuracy on the test sentences; the ending is asked where it is one of the {ENDINGS} "
        f"commonest.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
