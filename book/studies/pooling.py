"""Study: accuracy by maximum length and by what is read of an LSTM: who gave a passage?

Passages of four presidents are cut to a maximum length. One network is not told where a passage
ends: it runs through the padding and reads the last state. The others read valid steps only, in
four ways. A bag of words stands beside them.
"""

from __future__ import annotations

import torch

from companion.data import (
    Passages,
    Vocab,
    basic_english,
    batches,
    build_vocab_from_iterator,
    load,
    pad,
    passages,
)
from companion.look import run_study
from companion.models import TextClassifier, classification_objective
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
LENGTHS = (25, 44, 50, 90)
WAYS = {
    "padded": "last state, after the padding",
    "last": "last valid state",
    "mean": "mean of the valid outputs",
    "max": "maximum of the valid outputs",
    "attention": "attention over the valid outputs",
}
WORDS, EMBEDDING, HIDDEN = 3000, 32, 32
EPOCHS, BATCH, RATE = 3, 32, 1e-2

found = passages(load("state-of-the-union"))


def vocabulary(part: Passages, words: int = WORDS) -> Vocab:
    vocab = build_vocab_from_iterator(
        map(basic_english, part.texts), specials=["<pad>", "<unk>"], max_tokens=words
    )
    vocab.set_default_index(1)
    return vocab


def encoded(part: Passages, vocab: Vocab, length: int) -> tuple:
    """Tokens (N, length) padded with 0, lengths (N,), labels (N,)."""
    rows = [vocab(basic_english(text))[:length] for text in part.texts]
    x, lengths = pad(rows)
    return torch.nn.functional.pad(x, (0, length - x.shape[1])), lengths, part.labels


def trained(columns: tuple, seed: int, pooling: str, vocab_size: int, **options) -> Trainer:
    """A trainer that has run its epochs over columns of tokens, lengths and labels."""
    seed_all(seed)
    model = TextClassifier(vocab_size, 4, EMBEDDING, HIDDEN, pooling=pooling, **options)
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    trainer = Trainer(model, classification_objective, adam, clip_norm=1.0, progress=False)
    trainer.fit(batches(*columns, batch_size=BATCH, shuffle=True, seed=seed), epochs=EPOCHS)
    return trainer


def accuracy(trainer: Trainer, columns: tuple) -> float:
    return trainer.evaluate(batches(*columns, batch_size=500)).metrics["accuracy"]


def bag_of_words(
    train: list[str], labels, test: list[str], test_labels, words: int | None = None
) -> float:
    """Test accuracy of logistic regression on TF-IDF weights of the `words` commonest words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    weights = TfidfVectorizer(
        tokenizer=str.split, token_pattern=None, sublinear_tf=True, max_features=words
    )
    model = LogisticRegression(C=10, max_iter=1000).fit(weights.fit_transform(train), labels)
    return model.score(weights.transform(test), test_labels)


def first_words(part: Passages, length: int) -> list[str]:
    return [" ".join(basic_english(text)[:length]) for text in part.texts]


def one_seed(seed: int) -> dict[str, float]:
    """The seed draws the division of the addresses, the start, and the order of the batches."""
    train, _, test = found.split(seed=seed)
    vocab = vocabulary(train)
    values = {}
    for length in LENGTHS:
        columns, held = (encoded(part, vocab, length) for part in (train, test))
        values[f"padding_{length}"] = 1 - columns[1].sum().item() / columns[0].numel()
        values[f"bag_{length}"] = bag_of_words(
            first_words(train, length), train.labels, first_words(test, length), test.labels
        )
        for way in WAYS:
            if way == "padded":  # as if every row had `length` tokens
                full = torch.full_like(columns[1], length)
                parts = [(x, full[:1].expand(len(x)), labels) for x, _, labels in (columns, held)]
            else:
                parts = [columns, held]
            pooling = "last" if way == "padded" else way
            trainer = trained(parts[0], seed, pooling, len(vocab))
            values[f"{way}_{length}_seen"] = accuracy(trainer, parts[0])
            values[f"{way}_{length}"] = accuracy(trainer, parts[1])
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys = {}
    for length in LENGTHS:
        keys[f"padding_{length}"] = f"share of padding, at most {length} tokens"
        keys[f"bag_{length}"] = f"test accuracy of a bag of words, {length} tokens"
        for way, what in WAYS.items():
            keys[f"{way}_{length}_seen"] = f"training accuracy, {length} tokens, {what}"
            keys[f"{way}_{length}"] = f"test accuracy, {length} tokens, {what}"
    path = run_study(
        __file__,
        "Passages of State of the Union addresses to four presidents, addresses divided anew for "
        f"each seed; the {WORDS} most frequent tokens; an LSTM with {HIDDEN} units, {EPOCHS} "
        f"passes, Adam at {RATE:g}, batches of {BATCH}.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
