"""Study: surnames to languages with a vanilla RNN, five seeds, two initializations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import companion
from companion.data import batches, build_vocab_from_iterator, load, pad
from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
HIDDEN, EMBEDDING, EPOCHS, BATCH, RATE = 128, 32, 10, 64, 1e-3

surnames = load("surnames")
parts = surnames.split(seed=0)  # one split: the seeds vary weights and the order of batches
vocab = build_vocab_from_iterator((list(n.lower()) for n in parts.train.names), specials=["<unk>"])
vocab.set_default_index(0)


class Reader(nn.Module):
    """Letters → state after the last letter → language."""

    def __init__(self, recurrent_init: str | None) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(vocab), EMBEDDING)
        self.rnn = companion.RNN(
            EMBEDDING, HIDDEN, batch_first=True, recurrent_init=recurrent_init
        )
        self.language = nn.Linear(HIDDEN, len(surnames.languages))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        _, h_n = self.rnn(self.letters(x), lengths=lengths)  # h_n (1, B, H): last valid state
        return self.language(h_n[-1])


def objective(model: nn.Module, batch: tuple) -> tuple:
    x, lengths, labels = batch
    logits = model(x, lengths)
    correct = (logits.argmax(-1) == labels).float().mean()
    return nn.functional.cross_entropy(logits, labels), len(labels), {"accuracy": correct}


def data(part: companion.data.Surnames, size: int, shuffle: bool, seed: int = 0):
    indices = [vocab(list(name.lower())) for name in part.names]
    collate = lambda rows, labels: (*pad(rows), labels)  # noqa: E731
    return batches(
        indices, part.labels, batch_size=size, shuffle=shuffle, seed=seed, collate=collate
    )


def train(seed: int, recurrent_init: str | None) -> Reader:
    seed_all(seed)
    model = Reader(recurrent_init)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    trainer = Trainer(model, objective, optimizer, clip_norm=1.0, progress=False)
    trainer.fit(data(parts.train, BATCH, True, seed), epochs=EPOCHS)
    return model


@torch.no_grad()
def accuracies(model: Reader) -> tuple[float, list[float]]:
    """Accuracy on the test names, and for each language."""
    model.eval()
    ((x, lengths, labels),) = data(parts.test, len(parts.test), False)
    right = model(x, lengths).argmax(-1) == labels
    by_language = [right[labels == k].float().mean().item() for k in labels.unique().tolist()]
    return right.float().mean().item(), by_language


def one_seed(seed: int) -> dict[str, float]:
    accuracy, by_language = accuracies(train(seed, "orthogonal"))
    default, _ = accuracies(train(seed, None))
    most = parts.train.labels.bincount().argmax()
    return {
        "accuracy": accuracy,
        "accuracy_default_init": default,
        "majority": (parts.test.labels == most).float().mean().item(),
        "worst_language": min(by_language),
        "best_language": max(by_language),
    }


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"Vanilla RNN, H = {HIDDEN}, embedding {EMBEDDING}, {EPOCHS} epochs of Adam at {RATE:g} "
        f"with batches of {BATCH} and gradient norm clipped at 1, on {len(parts.train)} surnames; "
        f"accuracy on {len(parts.test)} others. One split; the seeds vary weights and order.",
        one_seed,
        SEEDS,
        {
            "accuracy": "test accuracy, orthogonal recurrent weights",
            "accuracy_default_init": "test accuracy, torch's uniform initialization",
            "majority": "test accuracy of always answering the commonest training language",
            "worst_language": "lowest test accuracy of a language, orthogonal",
            "best_language": "highest test accuracy of a language, orthogonal",
        },
    )
    print(path.name)
