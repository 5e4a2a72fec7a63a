"""Checkpoint: the small LSTM over characters that the page itself runs (the live picture `gates`).

It has read what the model of `macbeth.py` has read, and is a fifth of its size: its units fit on a
screen, and its weights into the page. They are trained in float32 and stored in float16.
"""

from __future__ import annotations

from pathlib import Path

import torch
from macbeth import streams

from companion.models import LanguageModel, bits, language_model_objective
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer, save_model

EMBEDDING, HIDDEN = 16, 64
EPOCHS, RATE = 15, 1e-2

if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
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
    trainer.fit(train, epochs=EPOCHS)
    model.half().float()
    config = {
        "model": {
            "vocab_size": len(vocab),
            "embedding_dim": EMBEDDING,
            "hidden_size": HIDDEN,
            "cell": "lstm",
            "tied": False,
        },
        "characters": vocab.get_itos(),
        "bits": round(bits(trainer.evaluate(held).loss), 5),
    }
    path = Path(__file__).with_suffix(".safetensors")
    save_model(model.half(), path, config)
    print(f"{path.name}: {path.stat().st_size} bytes, {config['bits']:.3f} bits a character")
