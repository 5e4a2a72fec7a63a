"""Checkpoint: a language model of characters that has read seven plays, and never Macbeth.

One LSTM layer, so that each of its units can be looked at. The weights are trained in float32 and
stored in float16, half the size; ``load_weights`` gives a model its own type back. What rounding
them costs is in the configuration, beside what the model is made of.
"""

from __future__ import annotations

from pathlib import Path

import torch

from companion.data import Streams, Vocab, build_vocab_from_iterator, load, stream_batches
from companion.models import LanguageModel, bits, language_model_objective
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer, save_model

HELD_OUT, RARE = "Macbeth", 5  # characters that are rarer in the plays read become <unk>
EMBEDDING, HIDDEN = 32, 160
ROWS, STEPS, EPOCHS, RATE = 16, 64, 25, 5e-3


def plays() -> tuple[list[str], str]:
    """The seven texts to read, and the one held out."""
    texts = {play.title: play.text for play in load("shakespeare")}
    held = texts.pop(HELD_OUT)
    return list(texts.values()), held


def vocabulary(texts: list[str]) -> Vocab:
    """The characters of the texts, the commonest first, after ``<unk>``."""
    vocab = build_vocab_from_iterator(texts, specials=["<unk>"], min_freq=RARE)
    vocab.set_default_index(0)
    return vocab


def streams() -> tuple[Streams, Streams, Vocab]:
    """What is read, and the held-out play in one row."""
    texts, held = plays()
    vocab = vocabulary(texts)
    train = stream_batches(vocab("\n".join(texts)), ROWS, STEPS)
    return train, stream_batches(vocab(held), 1, 1000), vocab


def trained() -> tuple[Trainer, Streams, Vocab]:
    seed_all(0)
    train, held, vocab = streams()
    model = LanguageModel(len(vocab), EMBEDDING, HIDDEN, "lstm", tied=False, forget_bias=1.0)
    torch.nn.init.normal_(model.embedding.weight)  # nothing is tied: the small start only delays
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, EPOCHS * len(train), eta_min=RATE / 20)
    trainer = Trainer(
        model,
        language_model_objective,
        adam,
        step_scheduler=rate,
        clip_norm=1.0,
        stateful=True,
        progress=False,
    )
    for epoch in range(EPOCHS):  # one after another, to be told how it goes; none is chosen
        history = trainer.fit(train, held)
        seen, unseen = bits(history.train_loss[-1]), bits(history.valid_loss[-1])
        print(f"epoch {epoch + 1}: {seen:.3f} bits a character, held out {unseen:.3f}", flush=True)
    return trainer, held, vocab


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    trainer, held, vocab = trained()
    before = bits(trainer.evaluate(held).loss)
    trainer.model.half().float()
    after = bits(trainer.evaluate(held).loss)
    config = {
        "model": {
            "vocab_size": len(vocab),
            "embedding_dim": EMBEDDING,
            "hidden_size": HIDDEN,
            "cell": "lstm",
            "tied": False,
        },
        "characters": vocab.get_itos(),
        "held_out": HELD_OUT,
        "bits_before_rounding": round(before, 5),
        "bits": round(after, 5),
    }
    path = Path(__file__).with_suffix(".safetensors")
    save_model(trainer.model.half(), path, config)
    print(f"{path.name}: {path.stat().st_size} bytes, {before:.4f} bits, rounded {after:.4f}")
