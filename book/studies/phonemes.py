"""Study: letters to phonemes, with attention and without; what a beam adds; what weights mean.

A word is read by a GRU in both directions, its phonemes are written by another. Beside the two
networks stand the nearest word of the training part, and a table: a letter and its neighbors say
what they mostly say, once it is known which letter says which phoneme. That is found by hard
expectation-maximization, which also gives alignments to hold those of the attention against.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from itertools import pairwise

import torch
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import extractOne
from torch import Tensor
from torch.utils.data import DataLoader

from companion.data import Pronunciations, bucket_batches, load, pad
from companion.look import run_study
from companion.models import (
    AttentionDecoder,
    Decoder,
    Encoder,
    Seq2Seq,
    Translation,
    beam_search,
    generate,
    seq2seq_objective,
)
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer
from companion.train.metrics import error_rate

SEEDS = range(5)
EPOCHS, BATCH, RATE, CLIP, LAST = 5, 64, 5e-3, 1.0, 0.02
EMBEDDING, HIDDEN = 32, 64  # of each direction of the encoder
WRITES, WRITES_FIXED = 128, 168  # units of the decoder: about 173,000 weights in both
LONGEST = 30
BEAMS = (1, 2, 4, 8)
SEARCHED = 1000  # words of the test, for the beams
GROUPS = {"short": (1, 5), "middle": (6, 8), "long": (9, 99)}  # letters of a word

# letters that English spells and does not say, by where they stand, and how such a word must sound
MUTE = {
    "mute_first": (r"^([gk])n|^(w)r|^(p)[snt]", lambda said: said[0] in ("N", "R", "S", "T")),
    "mute_gh": (r"(gh)t", lambda said: "G" not in said),
    "mute_e": (r"[bcdfgkmnpstvz](e)$", lambda said: said[-1][0] not in "AEIOU"),
}

found = load("cmudict").without_stress()
LETTERS = sorted(set("".join(found.words)))
PHONES = found.alphabet
BOS, EOS, FIRST = 0, 1, 2  # target tokens; phoneme k is FIRST + k


def tokens(part: Pronunciations) -> list[tuple[list[int], list[int]]]:
    """For each word its letters and its first pronunciation, as tokens."""
    letter = {c: i for i, c in enumerate(LETTERS)}
    phone = {p: FIRST + i for i, p in enumerate(PHONES)}
    pairs = zip(part.words, part.phones, strict=True)
    return [([letter[c] for c in word], [phone[p] for p in said]) for word, said in pairs]


def collate(rows: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return *pad([x for x, _ in rows]), *pad([y for _, y in rows])


def loader(part: Pronunciations, seed: int, batch: int = BATCH) -> DataLoader:
    rows = tokens(part)
    of_like_length = bucket_batches([len(y) for _, y in rows], batch, seed=seed)
    return DataLoader(rows, batch_sampler=of_like_length, collate_fn=collate)


def network(decoder: Decoder, hidden: int = HIDDEN) -> Seq2Seq:
    return Seq2Seq(Encoder(len(LETTERS), EMBEDDING, hidden), decoder, BOS, EOS)


def with_attention(hidden: int = HIDDEN, writes: int = WRITES, **options) -> Seq2Seq:
    V = len(PHONES) + FIRST
    return network(AttentionDecoder(V, 2 * hidden, EMBEDDING, writes, **options), hidden)


def fixed(writes: int = WRITES_FIXED) -> Seq2Seq:
    return network(Decoder(len(PHONES) + FIRST, EMBEDDING, writes))


def train(model: Seq2Seq, part: Pronunciations, seed: int, steps: int | None = None) -> Seq2Seq:
    """Adam, its rate falling linearly to LAST of itself."""
    batches = loader(part, seed)
    steps = steps or EPOCHS * len(batches)
    adam = torch.optim.Adam(model.parameters(), RATE)
    fall = torch.optim.lr_scheduler.LinearLR(adam, 1.0, LAST, total_iters=steps)
    trainer = Trainer(
        model, seq2seq_objective, adam, clip_norm=CLIP, step_scheduler=fall, progress=False
    )
    while steps > 0:
        given = [batch for batch, _ in zip(batches, range(steps), strict=False)]
        trainer.fit(given, epochs=1)
        steps -= len(given)
    return model.eval()


def sources(part: Pronunciations) -> tuple[Tensor, Tensor]:
    return pad([x for x, _ in tokens(part)])


def spelled(written: list[Translation]) -> list[list[str]]:
    """What was written, as phonemes; a BOS among them is an error like any other."""
    return [[PHONES[t - FIRST] if t >= FIRST else "?" for t in w.tokens] for w in written]


def nearest(said: list[list[str]], part: Pronunciations) -> list[list[str]]:
    """Of the right pronunciations of each word the one that takes the fewest edits."""
    rows = zip(said, part.phones, part.others, strict=True)
    return [
        min([first, *others], key=lambda right: Levenshtein.distance(s, right))
        for s, first, others in rows
    ]


def scores(said: list[list[str]], part: Pronunciations) -> tuple[float, float]:
    """Phoneme error rate, and share of words that are wholly right."""
    right = nearest(said, part)
    same = [s == r for s, r in zip(said, right, strict=True)]
    return error_rate(said, right), sum(same) / len(same)


def align(word: str, said: list[str], log_p: dict) -> list[tuple[str, ...]]:
    """The likeliest way to share the phonemes out among the letters, 0 to 2 for each."""
    S, n = len(word), len(said)
    best = [[-math.inf] * (n + 1) for _ in range(S + 1)]
    took = [[0] * (n + 1) for _ in range(S + 1)]
    best[0][0] = 0.0
    for i, letter in enumerate(word):
        low, row = log_p[letter], best[i]
        for j in range(n + 1):
            if row[j] == -math.inf:
                continue
            for k in range(min(2, n - j) + 1):
                total = row[j] + low.get(tuple(said[j : j + k]), -14.0 - 4 * k)
                if total > best[i + 1][j + k]:
                    best[i + 1][j + k], took[i + 1][j + k] = total, k
    j, shares = n, []
    for i in range(S, 0, -1):
        k = took[i][j]
        shares.append(tuple(said[j - k : j]))
        j -= k
    return shares[::-1]


def emissions(part: Pronunciations, words: int = 4000, rounds: int = 4) -> dict:
    """log P(phonemes | letter), by hard expectation-maximization from a diagonal start."""
    pairs = list(zip(part.words, part.phones, strict=True))[:words]
    counts: dict[str, Counter] = defaultdict(Counter)
    for word, said in pairs:  # at first: the letters that stand at about the same place
        for j, phone in enumerate(said):
            at = (j + 0.5) / len(said) * len(word)
            for i, letter in enumerate(word):
                counts[letter][(phone,)] += math.exp(-abs(i + 0.5 - at))
    for letter in LETTERS:
        counts[letter][()] = 0.2 * sum(counts[letter].values()) + 1
    for _ in range(rounds):
        log_p = {
            c: {said: math.log(v / sum(row.values())) for said, v in row.items()}
            for c, row in counts.items()
        }
        counts = defaultdict(Counter, {c: Counter({(): 1.0}) for c in LETTERS})
        for word, said in pairs:
            for letter, share in zip(word, align(word, said, log_p), strict=True):
                counts[letter][share] += 1
    return log_p


def windows(word: str, i: int) -> list[str]:
    """Letter i with ever fewer neighbors."""
    padded, at = f"###{word}###", i + 3
    sizes = ((3, 3), (2, 3), (2, 2), (1, 2), (1, 1), (0, 1), (0, 0))
    return [f"{a}:{padded[at - a : at + b + 1]}" for a, b in sizes]


def table(part: Pronunciations, log_p: dict) -> dict[str, tuple[str, ...]]:
    """What a letter says most often, by the letters around it."""
    counts: dict[str, Counter] = defaultdict(Counter)
    for word, said in zip(part.words, part.phones, strict=True):
        for i, share in enumerate(align(word, said, log_p)):
            for window in windows(word, i):
                counts[window][share] += 1
    return {window: row.most_common(1)[0][0] for window, row in counts.items()}


def looked_up(word: str, known: dict[str, tuple[str, ...]]) -> list[str]:
    """Each letter by the widest window that the table has."""
    shares = [
        next((known[w] for w in windows(word, i) if w in known), ()) for i in range(len(word))
    ]
    return [phone for share in shares for phone in share]


def mute(word: str, said: list[str], kind: str) -> list[int]:
    """The letters of a word that are mute in this way."""
    pattern, sounds = MUTE[kind]
    match = re.search(pattern, word)
    if not match or not sounds(said):
        return []
    return [i for group in range(1, match.re.groups + 1) for i in range(*match.span(group))]


@torch.no_grad()
def meaning(model: Seq2Seq, part: Pronunciations, log_p: dict, seed: int) -> dict[str, float]:
    """What the weights of a model that is told the right phonemes have to do with the letters."""
    x, S, y, n = collate(tokens(part))
    inputs, outputs, _ = model.shifted(y, n)
    written = model.begin(x, S)
    logits, weights, _ = model.decoder(inputs, written)
    owners = []  # of each phoneme of each word the letter that says it
    silent = torch.zeros(x.shape, dtype=torch.bool)
    for row, (word, said) in enumerate(zip(part.words, part.phones, strict=True)):
        shares = align(word, said, log_p)
        owners.append([i for i, share in enumerate(shares) for _ in share])
        silent[row, : len(word)] = torch.tensor([not share for share in shares])
    most = weights.argmax(-1)
    rows = range(len(owners))
    looks = [[(most[r, t].item(), i) for t, i in enumerate(owners[r])] for r in rows]
    pairs = [pair for row in looks for pair in row]
    even = [
        (int((t + 0.5) / len(owners[r]) * S[r].item()), i)
        for r in rows
        for t, i in enumerate(owners[r])
    ]
    written_steps = torch.arange(weights.shape[1]) < n[:, None]
    p = weights[written_steps]  # (phonemes, S)
    got = (weights * written_steps[..., None]).sum(1)  # (words, S): what each letter is given
    valid = written.encoded.valid
    moves = [b - a for row in looks for (a, _), (b, _) in pairwise(row)]
    values = {
        "own": sum(a == i for a, i in pairs) / len(pairs),
        "own_even": sum(a == i for a, i in even) / len(even),
        "near": sum(abs(a - i) <= 1 for a, i in pairs) / len(pairs),
        "near_even": sum(abs(a - i) <= 1 for a, i in even) / len(even),
        "forward": sum(m >= 0 for m in moves) / len(moves),
        "width": (-(p * p.clamp(min=1e-30).log()).sum(-1)).exp().mean().item(),
        "silent_letters": (silent & valid).sum().item() / valid.sum().item(),
        "silent": got[silent & valid].mean().item(),
        "sounding": got[~silent & valid].mean().item(),
        "any": got[valid].mean().item(),
    }
    for kind in MUTE:
        pairs_ = zip(part.words, part.phones, strict=True)
        places = [(r, i) for r, (w, said) in enumerate(pairs_) for i in mute(w, said, kind)]
        given = [got[r, i].item() for r, i in places]
        values[kind] = sum(given) / len(given)
        values[f"{kind}_letters"] = len(given)
    # one phoneme of each word that the model gets right: what if a letter is not there?
    draw = random.Random(seed)
    right = (logits.argmax(-1) == outputs) & written_steps
    chosen = [r for r in rows if S[r] > 1 and right[r].any()]
    steps = torch.tensor([draw.choice(right[r].nonzero()[:, 0].tolist()) for r in chosen])
    rows_ = torch.tensor(chosen)
    looked = most[rows_, steps]
    other = [
        draw.choice([i for i in range(int(S[r])) if i != a])
        for r, a in zip(chosen, looked.tolist(), strict=True)
    ]
    of = written.select(rows_)
    for name, letters in {"looked": looked, "other": torch.tensor(other)}.items():
        hidden = of.encoded.valid.clone()
        hidden[torch.arange(len(rows_)), letters] = False
        unseen = of._replace(encoded=of.encoded._replace(valid=hidden))
        shorter = [
            [c for i, c in enumerate(x[r, : S[r]].tolist()) if i != k]
            for r, k in zip(chosen, letters.tolist(), strict=True)
        ]
        for way, begun in {"hidden": unseen, "deleted": model.begin(*pad(shorter))}.items():
            again = model.decoder(inputs[rows_], begun)[0][torch.arange(len(rows_)), steps]
            lost = again.argmax(-1) != outputs[rows_, steps]
            values[f"{way}_{name}"] = lost.float().mean().item()
    return values


def one_seed(seed: int) -> dict[str, float]:
    """The seed draws the division of the words, the start, and the order of the batches."""
    learn, valid, test = found.split(seed=seed)
    both = Pronunciations(
        valid.words + test.words, valid.phones + test.phones, valid.others + test.others
    )
    values: dict[str, float] = {}
    log_p = emissions(learn)
    known = table(learn, log_p)
    by_table = [looked_up(word, known) for word in test.words]
    values["table"], values["table_exact"] = scores(by_table, test)
    some = test.subset(torch.arange(500))
    like = [extractOne(w, learn.words, scorer=Levenshtein.distance)[2] for w in some.words]
    values["word"], values["word_exact"] = scores([learn.phones[i] for i in like], some)
    x, S = sources(test)
    for name, make in {"attention": with_attention, "fixed": fixed}.items():
        seed_all(seed)
        model = train(make(), learn, seed)
        written = generate(model, x, S, LONGEST)
        said = spelled(written)
        values[name], values[f"{name}_exact"] = scores(said, test)
        for group, (least, most) in GROUPS.items():
            rows = [i for i, w in enumerate(test.words) if least <= len(w) <= most]
            part = test.subset(torch.tensor(rows))
            values[f"{name}_{group}"], _ = scores([said[i] for i in rows], part)
        if name == "fixed":
            continue
        values |= meaning(model, both, log_p, seed)
        for beam in BEAMS:
            for penalty in (0.0, 1.0) if beam == max(BEAMS) else (0.0,):
                few = x[:SEARCHED], S[:SEARCHED]
                best = beam_search(model, *few, LONGEST, beam=beam, length_penalty=penalty)
                first = [ways[0] for ways in best]
                key = f"beam_{beam}" + ("_long" if penalty else "")
                values[key], values[f"{key}_exact"] = scores(
                    spelled(first), test.subset(torch.arange(SEARCHED))
                )
                values[f"{key}_length"] = sum(len(w.tokens) for w in first) / len(first)
                if not penalty:
                    pairs = zip(written, first, strict=False)
                    gained = [b.log_prob > a.log_prob + 1e-4 for a, b in pairs]
                    values["likelier"] = sum(gained) / len(gained)  # of the widest, in the end
    return values


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    keys = {}
    for name, what in {
        "attention": "with attention (general), greedy",
        "fixed": "without attention, greedy",
        "table": "a table of letters and their neighbors",
        "word": "the pronunciation of the nearest training word, 500 words",
        **{f"beam_{k}": f"with attention, beam of {k}, {SEARCHED} words" for k in BEAMS},
        f"beam_{max(BEAMS)}_long": f"the same, beam of {max(BEAMS)}, length penalty 1",
    }.items():
        keys[name] = f"phoneme error rate: {what}"
        keys[f"{name}_exact"] = f"words wholly right: {what}"
        if name.startswith("beam"):
            keys[f"{name}_length"] = f"phonemes written a word: {what}"
        if name in ("attention", "fixed"):
            for group, (least, most) in GROUPS.items():
                size = f"{least} letters and more" if most == 99 else f"{least} to {most} letters"
                keys[f"{name}_{group}"] = f"phoneme error rate, {what}: words of {size}"
    keys |= {
        "own": "phonemes whose most attended letter is the one that says it by the table",
        "own_even": "the same if letters and phonemes were spread evenly",
        "near": "phonemes whose most attended letter is at most one away from it",
        "near_even": "the same if letters and phonemes were spread evenly",
        "forward": "steps from phoneme to phoneme at which the most attended letter stays or "
        "moves right",
        "width": "letters looked at, exp of the entropy of the weights",
        "silent_letters": "share of letters that say nothing by the table",
        "silent": "weight that such a letter is given in all",
        "sounding": "weight that any other letter is given in all",
        "any": "weight that a letter is given in all, mean of all letters",
        "mute_first": "weight that a first letter is given in all that is not said (knot, wren)",
        "mute_gh": "the same: g and h before t (night)",
        "mute_e": "the same: a last e behind a consonant (tone)",
        "mute_first_letters": "number of such first letters",
        "mute_gh_letters": "number of such g and h",
        "mute_e_letters": "number of such e",
        "hidden_looked": "right phonemes lost if the most attended letter is hidden from the "
        "attention",
        "hidden_other": "the same with another letter of the word",
        "deleted_looked": "right phonemes lost if the most attended letter is deleted",
        "deleted_other": "the same with another letter of the word",
        "likelier": f"words for which a beam of {max(BEAMS)} finds something likelier than greedy",
    }
    path = run_study(
        __file__,
        "20,000 words of the CMU dictionary to learn from, 2,500 others for the test, divided "
        "anew for each seed; of several pronunciations each counts as right; GRUs of about "
        f"173,000 weights, {EPOCHS} passes, Adam from {RATE:g} falling linearly, batches of "
        f"{BATCH}.",
        one_seed,
        SEEDS,
        keys,
    )
    print(path.name)
