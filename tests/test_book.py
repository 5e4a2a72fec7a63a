"""The form of the book's sources: what makes every stored output comparable, and the rhythm."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
import torch
import yaml

from companion.models import AttentionDecoder, Encoder, LanguageModel, Seq2Seq
from companion.train import load_weights, read_config

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(ROOT.glob("book/*.ipynb"))
TAGS = {
    "nbval-ignore-output",
    "raises-exception",
    "hide-input",
    "hide-output",
    "remove-input",
    "remove-cell",
}
FENCE = r"^(?:`{3,}|:{3,})"
DRAWS = re.compile(r"\bplt\.|\.subplots\(|\.plot\(|\b(ax|axes|fig)\b")
TIMES = re.compile(r"%%?timeit|\bperf_counter\(|\bTimer\(|\btimeit\(")


def toc_files(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key in {"file", "root"}:
                yield value
            else:
                yield from toc_files(value)
    elif isinstance(node, list):
        for value in node:
            yield from toc_files(value)


def leaves(node):
    if isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from leaves(value)
    else:
        yield node


TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
CHAPTERS = [f for part in TOC["parts"] if part.get("numbered") for f in toc_files(part)]


@cache
def cells(path: Path) -> list[dict]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [{**c, "source": "".join(c["source"])} for c in found]


def code(path: Path) -> list[dict]:
    return [c for c in cells(path) if c["cell_type"] == "code"]


def prose(path: Path) -> str:
    return "\n\n".join(c["source"] for c in cells(path) if c["cell_type"] == "markdown")


def ignored(cell: dict) -> bool:
    return "nbval-ignore-output" in cell["metadata"].get("tags", [])


each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
each_chapter = pytest.mark.parametrize("name", CHAPTERS)


def test_every_source_is_in_the_toc():
    files = [p.relative_to(ROOT) for p in ROOT.glob("book/**/*")]
    have = {
        p.with_suffix("").as_posix()
        for p in files
        if p.suffix in {".md", ".ipynb"} and not any(q.startswith((".", "_")) for q in p.parts)
    }
    assert set(toc_files(TOC)) == have


@each_notebook
def test_metadata_is_tags_and_mystnb_alone(path):
    for c in cells(path):
        assert set(c["metadata"]) <= {"tags", "mystnb"}, c["id"]
        assert set(c["metadata"].get("tags", [])) <= TAGS, c["id"]
    ids = [c["id"] for c in cells(path)]
    assert len(set(ids)) == len(ids)


@each_notebook
def test_every_cell_is_compared(path):
    """nbval passes over a cell without a count; a ``;`` hides nothing from it."""
    for n, c in enumerate(code(path), 1):
        assert c["execution_count"] == n, f"{c['id']}: make refresh NB={path.relative_to(ROOT)}"
        assert not c["source"].rstrip().endswith(";"), f"{c['id']}: write _ = … instead of …;"
        for out in c["outputs"]:
            kinds = set(out.get("data", {}))
            assert not {k for k in kinds if k.startswith("image/") or k == "text/html"}, c["id"]
            assert out.get("name", "stdout") == "stdout", f"{c['id']}: stderr is an error"
            assert out["output_type"] != "error" or "raises-exception" in c["metadata"]["tags"]


NUMBERLESS = re.compile(r"(?<![\w.])[-+−]?(?:nan|inf)(?!\w)", re.I)


@each_notebook
def test_no_output_shows_a_nan_that_its_cell_does_not_speak_of(path):
    """Case 50, pytorch/tutorials#847: a published page showed the loss NaN in each epoch."""
    for c in code(path):
        if re.search(r"nan|\binf\b|finite|show_source\(", c["source"], re.I):
            continue  # it is about one, or prints a function that mentions it
        for out in c["outputs"]:
            text = "".join(out.get("text", out.get("data", {}).get("text/plain", "")))
            found = NUMBERLESS.search(text)
            assert not found, f"{c['id']}: {text[max(found.start() - 60, 0) : found.end()]!r}"


def test_no_record_of_a_study_holds_a_nan():
    """Case 50: nor does a recorded number, also where it was written as a word."""
    for path in ROOT.glob("book/studies/*.json"):

        def refuse(word, name=path.name):
            raise AssertionError(f"{name}: {word}")

        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
        assert not NUMBERLESS.search(json.dumps(list(leaves(record["results"])))), path.name


@each_notebook
def test_only_figures_and_timings_are_ignored(path):
    for c in filter(ignored, code(path)):
        source = c["source"]
        assert DRAWS.search(source) or TIMES.search(source) or "look." in source, c["id"]
        assert not re.search(r"\bclaim\(", source), f"{c['id']}: a claim must be compared"


@each_notebook
def test_every_figure_has_an_alternative_text_and_a_caption(path):
    for c in code(path):
        drawn = re.search(r"\.subplots\(|plt\.figure\(", c["source"])
        if drawn or ignored(c) and not TIMES.search(c["source"]):
            mystnb = c["metadata"].get("mystnb", {})
            alt = mystnb.get("image", {}).get("alt", "")
            assert len(alt) >= 20, f"{c['id']}: mystnb.image.alt says what the figure shows"
            assert mystnb.get("figure", {}).get("caption"), f"{c['id']}: mystnb.figure.caption"
            assert ignored(c), f"{c['id']}: a figure carries nbval-ignore-output"


def test_three_quarters_of_the_cells_that_print_are_compared():
    every = [c for p in NOTEBOOKS for c in code(p) if c["outputs"] or ignored(c)]
    compared = [c for c in every if not ignored(c)]
    assert len(compared) >= 0.75 * len(every), f"{len(compared)} of {len(every)}"


@each_notebook
def test_title(path):
    heads = re.findall(r"^# .+$", prose(path), re.M)
    assert len(heads) == 1, "a page has one title"
    assert "$" not in heads[0] and "{math}" not in heads[0], "no mathematics in a title"


@each_chapter
def test_rhythm_opens_with_true_or_false(name):
    first = "\n".join(c["source"] for c in cells(ROOT / f"{name}.ipynb")[:5])
    assert re.search(r"true or false", first, re.I)


@each_chapter
def test_rhythm_seeds_first(name):
    assert "chapter(" in code(ROOT / f"{name}.ipynb")[0]["source"], "look.chapter() comes first"


@each_chapter
def test_rhythm_equations_are_labeled(name):
    assert re.search(r"^:label: |^\$\$ *\([\w:-]+\)", prose(ROOT / f"{name}.ipynb"), re.M)


@each_chapter
def test_rhythm_claims(name):
    path = ROOT / f"{name}.ipynb"
    assert any("claim(" in c["source"] for c in code(path))
    assert re.search(r"^#+ .*\bclaim", prose(path), re.M | re.I), "a section on what is claimed"


@each_chapter
def test_rhythm_exercises_have_solutions_that_run(name):
    path = ROOT / f"{name}.ipynb"
    text = prose(path)
    begin = FENCE + r"\{exercise(?:-start)?\}[^\n]*\n(?::[^\n]*\n)*?:label: (\S+)"
    exercises = re.findall(begin, text, re.M)
    solutions = re.findall(FENCE + r"\{solution(?:-start)?\} (\S+)", text, re.M)
    assert len(exercises) >= 3
    assert sorted(exercises) == sorted(solutions)
    # a solution is code: between its start and its end a cell is executed
    opened, ran = None, set()
    for c in cells(path):
        for kind, label in re.findall(r"\{solution-(start|end)\} ?(\S*)", c["source"]):
            opened = label if kind == "start" else None
        if opened and c["cell_type"] == "code":
            ran.add(opened)
    assert len(ran) >= 2, f"solutions with an executed cell: {sorted(ran)}"


@each_chapter
def test_rhythm_ends_with_a_summary(name):
    assert re.search(r"^#+ .*\bsummary\b", prose(ROOT / f"{name}.ipynb"), re.M | re.I)


CHECKPOINTS = sorted(ROOT.glob("book/checkpoints/*.safetensors"))


def test_there_are_checkpoints():
    assert CHECKPOINTS


@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda p: p.stem)
def test_a_checkpoint_is_small_and_says_what_made_it(path):
    assert path.with_suffix(".py").is_file(), "the script that made it stands beside it"
    assert path.stat().st_size <= 300_000
    config = read_config(path)
    model: torch.nn.Module
    if "model" in config:
        model = LanguageModel(**config["model"])
        assert len(config["characters"]) == config["model"]["vocab_size"]
    else:
        parts = Encoder(**config["encoder"]), AttentionDecoder(**config["decoder"])
        model = Seq2Seq(*parts, config["bos"], config["eos"])
        assert len(config["letters"]) == config["encoder"]["vocab_size"]
        assert len(config["phonemes"]) + 2 == config["decoder"]["vocab_size"]
    assert load_weights(model, path) == config
    assert {w.dtype for w in model.parameters()} == {torch.float32}
    assert all(w.isfinite().all() for w in model.parameters())
