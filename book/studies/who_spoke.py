"""Study: words or order, seen or unseen addresses? Networks beside a bag of words.

Passages of four presidents: an LSTM with max pooling and a bag of words, tested on addresses of
which no passage was seen, and on passages divided one by one. The same with the words of every
passage shuffled, in the test or throughout. And short texts, glosses of nouns to their kind, of
which there are five times as many.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pooling as common
import torch
from torch.utils.data import DataLoader

from companion.data import (
    Texts,
    basic_english,
    bucket_batches,
    build_vocab_from_iterator,
    load,
    pad,
)
from companion.look import run_study
from companion.models import TextClassifier, classification_objective
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer

SEEDS = range(5)
LENGTH, POOLING = 90, "max"
GLOSS_WORDS, GLOSS_EPOCHS, GLOSS_RATE = 8000, 4, 5e-3


def shuffled(texts: list[str], seed: int) -> list[str]:
    """The tokens of each text in random order."""
    draws, out = random.Random(seed), []
    for text in texts:
        words = basic_english(text)
        draws.shuffle(words)
        out.append(" ".join(words))
    return out


def tokens(texts: list[str]) -> list[str]:
    return [" ".join(basic_english(text)) for text in texts]


def presidents(seed: int) -> dict[str, float]:
    values = {}
    by_address = common.found.split(seed=seed)
    one_by_one = Texts.split(common.found, seed=seed, valid=0.15, test=0.15)
    for name, parts in (("address", by_address), ("passage", one_by_one)):
        train, test = parts.train, parts.test
        values[f"bag_{name}"] = common.bag_of_words(
            tokens(train.texts), train.labels, tokens(test.texts), test.labels
        )
        vocab = common.vocabulary(train)
        columns, held = (common.encoded(part, vocab, LENGTH) for part in (train, test))
        trainer = common.trained(columns, seed, POOLING, len(vocab))
        values[f"lstm_{name}"] = common.accuracy(trainer, held)
        if name == "address":
            values["bag_3000"] = common.bag_of_words(
                tokens(train.texts), train.labels, tokens(test.texts), test.labels, common.WORDS
            )
            columns, held = (
                common.encoded(replace(part, texts=shuffled(part.texts, seed)), vocab, LENGTH)
                for part in (train, test)
            )
            values["lstm_mixed"] = common.accuracy(trainer, held)
            trainer = common.trained(columns, seed, POOLING, len(vocab))
            values["lstm_never"] = common.accuracy(trainer, held)
    return values


def loader(texts: list[str], labels, vocab, size: int, shuffle: bool, seed: int) -> DataLoader:
    x = [vocab(basic_english(text)) for text in texts]
    rows = list(zip(x, labels.tolist(), strict=True))
    sampler = bucket_batches([len(row) for row in x], size, shuffle=shuffle, seed=seed)

    def collate(chosen: list) -> tuple:
        return *pad([x for x, _ in chosen]), torch.tensor([y for _, y in chosen])

    return DataLoader(rows, batch_sampler=sampler, collate_fn=collate)


def glosses(seed: int) -> dict[str, float]:
    train, _, test = load("wordnet-glosses").split(seed=seed)
    values = {
        "bag_glosses": common.bag_of_words(
            tokens(train.texts), train.labels, tokens(test.texts), test.labels
        )
    }
    mixed = shuffled(test.texts, seed)
    for key, texts in (("glosses", train.texts), ("glosses_mixed", shuffled(train.texts, seed))):
        vocab = build_vocab_from_iterator(
            map(basic_english, texts), specials=["<pad>", "<unk>"], max_tokens=GLOSS_WORDS
        )
        vocab.set_default_index(1)
        seed_all(seed)
        model = TextClassifier(
            len(vocab), 4, 64, 48, bidirectional=True, pooling=POOLING, dropout=0.3
        )
        adam = torch.optim.Adam(model.parameters(), lr=GLOSS_RATE)
        trainer = Trainer(model, classification_objective, adam, clip_norm=1.0, progress=False)
        trainer.fit(loader(texts, train.labels, vocab, 64, True, seed), epochs=GLOSS_EPOCHS)
        if key == "glosses":
            held = loader(test.texts, test.labels, vocab, 500, False, seed)
            values["lstm_glosses"] = trainer.evaluate(held).metrics["accuracy"]
        held = loader(mixed, test.labels, vocab, 500, False, seed)
        values["lstm_glosses_tested" if key == "glosses" else "lstm_glosses_mixed"] = (
            trainer.evaluate(held).metrics["accuracy"]
        )
    return values


def one_seed(seed: int) -> dict[str, float]:
    return presidents(seed) | glosses(seed)


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        "Test accuracy. Passages of four presidents, as in the study pooling, LSTM with 32 units "
        f"and max pooling; glosses of four kinds, {GLOSS_WORDS} tokens, 48 units in each of two "
        f"directions, max pooling, dropout 0.3, {GLOSS_EPOCHS} passes, Adam at {GLOSS_RATE:g}, "
        "batches of 64. Bag of words: TF-IDF and logistic regression.",
        one_seed,
        SEEDS,
        {
            "bag_address": "bag of words, addresses apart",
            "bag_3000": f"bag of the {common.WORDS} commonest words, addresses apart",
            "bag_passage": "bag of words, passages divided one by one",
            "lstm_address": "LSTM, addresses apart",
            "lstm_passage": "LSTM, passages divided one by one",
            "lstm_mixed": "LSTM, addresses apart, words shuffled in the test alone",
            "lstm_never": "LSTM, addresses apart, words shuffled throughout",
            "bag_glosses": "bag of words, glosses",
            "lstm_glosses": "LSTM, glosses",
            "lstm_glosses_tested": "LSTM, glosses, words shuffled in the test alone",
            "lstm_glosses_mixed": "LSTM, glosses, words shuffled throughout",
        },
    )
    print(path.name)
