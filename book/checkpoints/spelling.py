"""Checkpoint: letters to phonemes with attention, for the page itself (the live picture `align`).

The model with attention of `book/studies/phonemes.py`, three quarters as wide and trained on the
same part of the words. Its weights are trained in float32 and stored in float16.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.utils.data import DataLoader

from companion.data import Pronunciations, bucket_batches, load, pad
from companion.models import AttentionDecoder, Encoder, Seq2Seq, generate, seq2seq_objective
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer, save_model

EMBEDDING, HIDDEN, WRITES = 32, 48, 96  # HIDDEN units in each direction of the encoder
EPOCHS, BATCH, RATE, LAST, LONGEST = 4, 64, 5e-3, 0.02, 30
BOS, EOS, FIRST = 0, 1, 2  # target tokens; phoneme k is FIRST + k


def tokens(part: Pronunciations, letters: str) -> list[tuple[list[int], list[int]]]:
    """For each word its letters and its first pronunciation, as tokens."""
    phone = {p: FIRST + i for i, p in enumerate(part.alphabet)}
    pairs = zip(part.words, part.phones, strict=True)
    return [([letters.index(c) for c in word], [phone[p] for p in said]) for word, said in pairs]


def loader(rows: list[tuple[list[int], list[int]]]) -> DataLoader:
    like = bucket_batches([len(y) for _, y in rows], BATCH, seed=0)
    return DataLoader(
        rows,
        batch_sampler=like,
        collate_fn=lambda rows: (*pad([x for x, _ in rows]), *pad([y for _, y in rows])),
    )


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    seed_all(0)
    train, _, test = load("cmudict").without_stress().split()
    letters = "".join(sorted(set("".join(train.words))))
    batches = loader(tokens(train, letters))
    made = {
        "encoder": {"vocab_size": len(letters), "embedding_dim": EMBEDDING, "hidden_size": HIDDEN},
        "decoder": {
            "vocab_size": len(train.alphabet) + FIRST,
            "memory_size": 2 * HIDDEN,
            "embedding_dim": EMBEDDING,
            "hidden_size": WRITES,
        },
    }
    model = Seq2Seq(Encoder(**made["encoder"]), AttentionDecoder(**made["decoder"]), BOS, EOS)
    adam = torch.optim.Adam(model.parameters(), RATE)
    fall = torch.optim.lr_scheduler.LinearLR(adam, 1.0, LAST, total_iters=EPOCHS * len(batches))
    trainer = Trainer(
        model, seq2seq_objective, adam, clip_norm=1.0, step_scheduler=fall, progress=False
    )
    trainer.fit(batches, epochs=EPOCHS)
    model.half().float().eval()

    part = list(zip(test.words, test.phones, test.others, strict=True))[:1000]
    x, lengths = pad([[letters.index(c) for c in word] for word, _, _ in part])
    written = generate(model, x, lengths, max_length=LONGEST)
    said = [[train.alphabet[t - FIRST] for t in w.tokens if t >= FIRST] for w in written]
    right = sum(s == p or s in others for s, (_, p, others) in zip(said, part, strict=True))
    config = {
        **made,
        "bos": BOS,
        "eos": EOS,
        "letters": letters,
        "phonemes": list(train.alphabet),
        "right": right / len(part),
    }
    path = Path(__file__).with_suffix(".safetensors")
    save_model(model.half(), path, config)
    print(f"{path.name}: {path.stat().st_size} bytes, {right} of {len(part)} test words right")
