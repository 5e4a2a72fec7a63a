"""Draw what stands in place of each live picture where no scripts run: book/_static/live/*.svg.

::

    python tools/live_stills.py        after a checkpoint or the study has changed
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.colors import LinearSegmentedColormap

from companion import look
from companion.models import AttentionDecoder, Encoder, LanguageModel, Seq2Seq, generate
from companion.train import load_weights, read_config

BOOK = Path(__file__).parents[1] / "book"
TEXT, WORD, STEPS = "What is a king without a crown?", "freightliner", 100
BLUE, ORANGE, GREEN = "#0072b2", "#b8500a", "#00724f"  # of live.css, on a light page


def gates() -> Any:
    path = BOOK / "checkpoints/letters.safetensors"
    config = read_config(path)
    model = LanguageModel(**config["model"])
    load_weights(model, path)
    weights = [p for name, p in model.layers[0].named_parameters()]
    W_x, W_h, b_x, b_h = weights
    state, rows = model.initial_state(1), []
    for character in "\n" + TEXT:
        place = config["characters"].index(character)
        h = state[0][0][0]
        a = model.embedding.weight[place] @ W_x.T + b_x + h @ W_h.T + b_h
        rows.append(a[0].chunk(4)[1].sigmoid())
        _, state = model(torch.tensor([[place]]), state)
    fig, ax = look.figure(height=2.8)
    tiles = torch.stack(rows[1:]).T
    shades = LinearSegmentedColormap.from_list("gates", [BLUE, "white", ORANGE])
    _ = ax.imshow(tiles, aspect="auto", cmap=shades, vmin=0, vmax=1, interpolation="none")
    _ = ax.set_xticks(range(len(TEXT)), TEXT.replace(" ", "␣"))
    _ = ax.set(ylabel="unit", title="forget gates: orange is open, blue is shut")
    ax.grid(False)
    return fig


def flow() -> Any:
    fig, ax = look.figure(height=2.6)
    k = torch.arange(STEPS + 1.0)
    for factor, style in ((0.95, "-"), (1.0, "--"), (1.02, ":")):
        _ = ax.plot(k, factor**k, style, color=ORANGE, label=f"|λ| = {factor:g}")
    for bias, style in ((1.0, "-"), (3.0, "--")):
        f = torch.sigmoid(torch.tensor(bias))
        label = f"forget bias {bias:g}: σ(b) = {f:.3f}"
        _ = ax.plot(k, f**k, style, color=GREEN, label=label)
    _ = ax.set(yscale="log", ylim=(1e-8, 1e2), xlabel="steps back, k", ylabel="share that is left")
    _ = ax.legend(loc="lower right")
    return fig


def align() -> Any:
    path = BOOK / "checkpoints/spelling.safetensors"
    config = read_config(path)
    parts = Encoder(**config["encoder"]), AttentionDecoder(**config["decoder"])
    model = Seq2Seq(*parts, config["bos"], config["eos"])
    load_weights(model, path)
    letters = torch.tensor([[config["letters"].index(c) for c in WORD]])
    written = generate(model, letters)[0]
    said = [config["phonemes"][t - 2] for t in written.tokens] + ["end"]
    assert written.weights is not None
    fig, ax = look.figure(height=3.4)
    shades = LinearSegmentedColormap.from_list("weights", ["white", BLUE])
    _ = ax.imshow(
        written.weights, cmap=shades, vmin=0, vmax=1, interpolation="none", aspect="auto"
    )
    _ = ax.set_xticks(range(len(WORD)), list(WORD))
    _ = ax.set_yticks(range(len(said)), said)
    ax.grid(False)
    return fig


def cost() -> Any:
    study = json.loads((BOOK / "studies/bench_scaling.json").read_text(encoding="utf-8"))
    fig, ax = look.figure(height=2.8)
    T = [256, 1024, 4096, 16384]
    shown = ("gru", "GRU", "o-"), ("lstm", "LSTM", "v-"), ("mamba", "Mamba", "D-")
    for name, label, style in (*shown, ("attention", "attention with cache", "s-")):
        held = [study["results"][f"{name} state {n}"]["values"][0] for n in T]
        _ = ax.plot(T, held, style, color=look.COLORS[name], label=label)
    _ = ax.set(xscale="log", yscale="log", xlabel="tokens so far", ylabel="state, KiB")
    _ = ax.set_xticks(T, T)
    ax.minorticks_off()
    _ = ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4)
    return fig


def scan() -> Any:
    fig, axes = look.figure(height=3.0, ncols=2)
    T = 8
    tree = [[(0, 1), (2, 3), (4, 5), (6, 7)], [(1, 3), (5, 7)], [(3, 7)], [(3, 5)]]
    tree.append([(1, 2), (3, 4), (5, 6)])
    loop = [[(t - 1, t)] for t in range(1, T)]
    for ax, title, rounds in zip(axes, ("loop", "tree"), (loop, tree), strict=True):
        for k, joins in enumerate(rounds):
            for early, late in joins:
                _ = ax.plot([early, late], [k, k + 1], color=look.PALETTE["vermillion"], ls="-")
        for k in range(len(rounds) + 1):
            _ = ax.plot(range(T), [k] * T, "o", color=look.PALETTE["green"])
        _ = ax.set(title=f"{title}: {len(rounds)} rounds", xlabel="step", ylabel="round")
        ax.invert_yaxis()
        ax.grid(False)
    return fig


if __name__ == "__main__":
    look.use_style()
    plt.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "live", "font.family": "sans-serif"}
    )
    with torch.no_grad():
        for draw in (gates, flow, align, cost, scan):
            path = BOOK / f"_static/live/{draw.__name__}.svg"
            draw().savefig(path, metadata={"Date": None}, facecolor="white", bbox_inches="tight")
            print(f"{path.name}: {path.stat().st_size:,} bytes")
