"""The live pictures compute what the package computes: the scripts of the page, under node."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path
from typing import Any

import live_weights
import nbformat
import numpy as np
import pytest
import torch
from torch import Tensor

import companion
from companion import look
from companion.attention import CausalAttention
from companion.models import AttentionDecoder, Encoder, LanguageModel, Seq2Seq
from companion.run.scan import scan
from companion.train import load_weights, read_config
from companion.train.truncated import tensors_in

from .extensions import extension

ROOT = Path(__file__).parents[1]
BOOK, LIVE = ROOT / "book", ROOT / "book/_static/live"
PICTURES = {
    "gates": "lstm",
    "flow": "gradients",
    "align": "attention",
    "cost": "transformer",
    "scan": "other_cells",
}
NODE = shutil.which("node")


def content(name: str) -> dict[str, Any]:
    """What a script in weights/ assigns."""
    text = (LIVE / f"weights/{name}.js").read_text(encoding="utf-8")
    before, _, after = text.partition(" = ")
    assert before == f"(globalThis.live ??= {{}}).{name}"
    return json.loads(after.removesuffix(";\n"))


def listed(x: Tensor) -> list:
    return x.detach().tolist()


# -- the reference


def lstm(text: str) -> dict[str, Any]:
    path = BOOK / "checkpoints/letters.safetensors"
    config = read_config(path)
    model = LanguageModel(**config["model"], dtype=torch.float64)
    load_weights(model, path)
    w = {k.removeprefix("layers.0."): v for k, v in model.state_dict().items()}
    characters, steps = config["characters"], []
    state = model.initial_state(1)
    for character in text:
        place = characters.index(character) if character in characters else 0
        x, before = model.embedding.weight[place][None], state[0]
        a = x @ w["weight_ih_l0"].T + w["bias_ih_l0"] + before[0][0] @ w["weight_hh_l0"].T
        i, f, g, o = (a + w["bias_hh_l0"])[0].chunk(4)
        scores, state = model(torch.tensor([[place]]), state)
        h, c = state[0]
        gates = {"i": i.sigmoid(), "f": f.sigmoid(), "g": g.tanh(), "o": o.sigmoid()}
        own = gates["f"] * before[1][0, 0] + gates["i"] * gates["g"]
        torch.testing.assert_close(own, c[0, 0])  # the gates are those of the package's step
        step = {**gates, "c": c[0, 0], "h": h[0, 0], "scores": scores[0, 0]}
        steps.append(
            {"character": character, "place": place} | {k: listed(v) for k, v in step.items()}
        )
    return {"steps": steps}


def speller(words: list[str]) -> list[dict[str, Any]]:
    path = BOOK / "checkpoints/spelling.safetensors"
    config = read_config(path)
    parts = Encoder(**config["encoder"]), AttentionDecoder(**config["decoder"])
    model = Seq2Seq(*parts, config["bos"], config["eos"]).double().eval()
    load_weights(model, path)
    rows = []
    for word in words:
        written = model.begin(torch.tensor([[config["letters"].index(c) for c in word]]))
        token, row = model.bos, {"word": word, "phonemes": [], "p": [], "weights": []}
        while token != model.eos and len(row["p"]) < 30:
            scores, weights, written = model.decoder.step(torch.tensor([token]), written)
            p = scores[0].softmax(-1)
            token = int(p.argmax())
            row["phonemes"].append(None if token == model.eos else config["phonemes"][token - 2])
            row["p"].append(p[token].item())
            row["weights"].append(listed(weights[0]))
        rows.append(row)
    return rows


def memory() -> dict[str, Any]:
    """Gradients by autograd, through the package's own loop over time."""
    eigenvalues = []
    for r, degrees in ((0.0, 0), (0.5, 180), (0.95, 20), (1.0, 90), (1.2, -135)):
        re, im = r * math.cos(math.radians(degrees)), r * math.sin(math.radians(degrees))
        turn = torch.tensor([[re, -im], [im, re]], dtype=torch.float64)  # eigenvalues re ± i im
        sizes = [
            torch.linalg.matrix_norm(torch.linalg.matrix_power(turn, k), 2) for k in range(101)
        ]
        eigenvalues.append({"re": re, "im": im, "sizes": [s.item() for s in sizes]})
    gates = []
    for bias in (-3.0, 0.0, 1.0, 3.0, 8.0):
        cell = companion.LSTMCell(1, 1, dtype=torch.float64)
        for name, p in cell.named_parameters():
            torch.nn.init.zeros_(p)
            if name == "bias_ih":
                with torch.no_grad():
                    p[1] = bias  # i, f, g, o
        c0 = c = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
        h, left = torch.zeros_like(c), []
        for _ in range(101):
            (grad,) = torch.autograd.grad(c, c0, retain_graph=True)
            left.append(grad.item())
            h, c = cell(torch.zeros_like(c), (h, c))
        gates.append({"bias": bias, "left": left})
    return {"eigenvalues": eigenvalues, "gates": gates}


def scans() -> list[dict[str, Any]]:
    cases = []
    for T in [*range(1, 18), 31, 32, 33]:
        a = torch.rand(1, T, 1, dtype=torch.float64)
        b = torch.randn(1, T, 1, dtype=torch.float64)
        h, _ = scan(a, b)
        cases.append({k: listed(v[0, :, 0]) for k, v in {"a": a, "b": b, "h": h}.items()})
    return cases


def costs() -> list[dict[str, Any]]:
    """Bytes counted in the states of real layers."""
    cases = []

    def add(name: str, state: object, copies: int = 1, **given: int) -> None:
        held = copies * sum(s.numel() * s.element_size() for s in tensors_in(state))
        cases.append({"name": name, "given": given, "held": held})

    for width, depth, dtype, size in ((8, 1, torch.float32, 4), (32, 3, torch.float16, 2)):
        shape = {"width": width, "heads": 4, "depth": depth, "bytes": size}
        for name in ("rnn", "gru", "lstm", "mamba"):
            layer = companion.Recurrence(name, width, width, depth, dtype=dtype)
            for T in (1, 100):  # what was read makes no difference
                add(name, layer.initial_state(1), shared=4, T=T, **shape)
        for shared in (4, 2, 1):
            layer = CausalAttention(width, 4, kv_heads=shared, dtype=dtype)
            state = layer.initial_state(1)
            for T in range(1, 6):
                _, state = layer.step(torch.zeros(1, width, dtype=dtype), state)
                add("attention", state, copies=depth, shared=shared, T=T, **shape)
    study = json.loads((BOOK / "studies/bench_scaling.json").read_text(encoding="utf-8"))
    for key, result in study["results"].items():
        name, what, T = key.rsplit(" ", 2)
        if what == "state" and name in ("rnn", "gru", "lstm", "attention", "mamba"):
            given = {"width": 128, "heads": 4, "shared": 4, "depth": 1, "bytes": 4, "T": int(T)}
            held = statistics.median(result["values"]) * 1024
            cases.append({"name": name, "given": given, "held": held})
    return cases


WORDS = (
    "freightliner knight gnome tone cat a photograph thorough wren phone elephant quick "
    "zebra school machine measure judge exit onion through"
).split()


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    with torch.no_grad():
        found: dict[str, Any] = {
            "lstm": lstm("\nTo be, or not to be: that is the question.\nWhy? 7 naïve µ"),
            "speller": speller(WORDS),
            "scan": scans(),
            "cost": costs(),
        }
    found["memory"] = memory()
    path = tmp_path_factory.mktemp("live") / "reference.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("name", ["lstm", "speller", "memory", "scan", "cost"])
def test_node(reference, name):
    env = os.environ | {"LIVE_REFERENCE": str(reference)}
    command = [str(NODE), "--test", f"tests/js/{name}.test.mjs"]
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


# -- the files


@pytest.mark.parametrize("name", ["letters", "spelling"])
def test_weights_are_the_checkpoint(name):
    from safetensors.numpy import load_file

    path = BOOK / f"checkpoints/{name}.safetensors"
    stored, found = load_file(path), content(name)
    assert stored.keys() == found["tensors"].keys()
    for key, tensor in stored.items():
        raw = base64.b64decode(found["tensors"][key]["f16"])
        again = np.frombuffer(raw, "<f2").reshape(found["tensors"][key]["shape"])
        assert np.array_equal(again, tensor), key
    config = read_config(path)
    assert all(config[key] == found[key] for key in found if key != "tensors")
    assert (LIVE / f"weights/{name}.js").stat().st_size < 300_000


def test_recorded_numbers_are_the_study():
    study = json.loads((BOOK / "studies/bench_scaling.json").read_text(encoding="utf-8"))
    found, seen = content("scaling")["layers"], 0
    for name, layer in found.items():
        for what, row in layer.items():
            for T, value in zip(row["lengths"], row["values"], strict=True):
                stated = statistics.median(study["results"][f"{name} {what} {T}"]["values"])
                assert value == pytest.approx(stated, rel=1e-3)
                seen += 1
    assert seen == len(study["results"])


def test_tool_writes_these_files(capsys, monkeypatch, tmp_path):
    assert live_weights.main(["--check"]) == 0, capsys.readouterr().out
    monkeypatch.setattr(live_weights, "WEIGHTS", tmp_path)
    assert live_weights.main(["--check"]) == 1
    assert live_weights.main([]) == 0 and live_weights.main(["--check"]) == 0


def test_scripts_are_plain():
    """Whole, without modules, and without another host: they work from a folder, offline."""
    defined: list[str] = []
    for path in sorted([*LIVE.glob("*.js"), *LIVE.glob("math/*.js")]):
        text = path.read_text(encoding="utf-8")
        assert '"use strict"' in text and text.count("\n") <= 250, path
        assert not re.search(r"^\s*(import|export)\b|fetch\(|XMLHttpRequest", text, re.M), path
        defined += re.findall(r"^  live\.(\w+) = ", text, re.M)
        hosts = set(re.findall(r"https?://[^\"/]+", text))
        assert hosts <= {"http://www.w3.org"}, path  # the name space of SVG
    # all share one object: a name that is given twice would break the picture that loads both
    assert len(defined) > 20 and len(defined) == len(set(defined))


def luminance(color: str) -> float:
    c = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    c = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return float(c @ [0.2126, 0.7152, 0.0722])


def test_colors_are_the_book_s():
    """A layer has the color of the figures, in a shade to be seen on the theme's surface."""
    cost = (LIVE / "cost.js").read_text(encoding="utf-8")
    style = re.search(r"const STYLE = \{(.+?)\};", cost, re.S)
    assert style
    found = dict(re.findall(r"(\w+): \[\"(\w+)\"", style[1]))
    assert {name: look.PALETTE[found[name]] for name in look.COLORS} == look.COLORS
    css = (LIVE / "live.css").read_text(encoding="utf-8")
    light, dark = css.split('html[data-theme="dark"] .live', 1)
    for part, surface in ((light, "#f3f4f5"), (dark, "#29313d")):
        shades = dict(re.findall(r"--live-(\w+): (#\w{6})", part))
        assert shades.keys() == look.PALETTE.keys() - {"black"}  # the text's color, in both
        assert len(set(shades.values())) == len(shades)
        for shade in shades.values():
            darker, lighter = sorted((luminance(surface), luminance(shade)))
            assert (lighter + 0.05) / (darker + 0.05) >= 3, shade


def test_extension_adds_scripts_in_order():
    live = extension("live")
    assert live.SCRIPTS.keys() == PICTURES.keys()
    assert live.scripts("<p>nothing</p>") == []
    both = live.scripts('<div data-live="gates"></div><div data-live="align"></div>')
    assert len(both) == len(set(both)) and both[0] == "live/parts.js"
    assert both.index("live/math/basics.js") < both.index("live/math/speller.js")
    assert both.index("live/math/speller.js") < both.index("live/align.js")
    for name in PICTURES:
        for script in live.scripts(f'<div data-live="{name}">'):
            assert (BOOK / "_static" / script).exists(), script
    with pytest.raises(ValueError, match="data-live: expected one of"):
        live.scripts('<div data-live="gate"></div>')


@pytest.mark.parametrize("name", PICTURES)
def test_picture_stands_in_its_chapter(name):
    """Once, with something to see for those who run no scripts."""
    nb = nbformat.read(BOOK / f"{PICTURES[name]}.ipynb", as_version=4)
    cells = [c.source for c in nb.cells if f'data-live="{name}"' in c.source]
    assert len(cells) == 1 and cells[0].count('class="live"') == 1
    inside = re.search(r'data-live="[^>]*>\n\n(.+?)\n\n</div>', cells[0], re.S)
    assert inside, "an empty line after <div> and one before </div>, or Markdown stays as it is"
    image = re.search(r"!\[(.{20,})\]\((_static/live/.+\.svg)\)", inside[1])
    assert image and (BOOK / image[2]).stat().st_size < 40_000
    assert "scripts" in inside[1]
