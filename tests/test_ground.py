"""What surrounds the package agrees: versions, environments, commands, workflows, files."""

from __future__ import annotations

import importlib
import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^\.PHONY: (\S+)$", MAKEFILE, re.M))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def requirements(lines) -> dict[str, Requirement]:
    return {canonicalize_name(r.name): r for r in map(Requirement, lines)}


PINS = {
    name: next(iter(req.specifier)).version
    for name, req in requirements(
        re.findall(r"^[\w.-]+==\S+", read("constraints.txt"), re.M)
    ).items()
}


def installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def environment(name: str) -> tuple[list[str], list[str]]:
    parts = yaml.safe_load(read(name))["dependencies"]
    conda = [p for p in parts if isinstance(p, str)]
    return conda, next(p["pip"] for p in parts if isinstance(p, dict))


# ---- versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("extra", ["", *sorted(set(EXTRAS) - {"torchtext"})])
def test_constraints_hold_a_proven_version_of_every_requirement(extra):
    for name, req in requirements(EXTRAS.get(extra, PROJECT["dependencies"])).items():
        if name == PROJECT["name"]:
            continue
        if extra in {"", "book", "test"} or installed(name):
            assert name in PINS, f"{name} (extra {extra!r}) is not in constraints.txt: make lock"
        if name in PINS:
            assert req.specifier.contains(PINS[name]), f"{req} excludes the proven {PINS[name]}"


def test_constraints_are_versions_alone():
    lines = [x for x in read("constraints.txt").splitlines() if x and not x.startswith("#")]
    bad = [x for x in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", x)]
    assert not bad, "no local path, no local version such as +cpu"
    assert [x.split("==")[0] for x in lines] == sorted(PINS) and len(lines) == len(PINS) > 80


def test_torch_range():
    torch = requirements(PROJECT["dependencies"])["torch"].specifier
    assert torch == Requirement("torch>=2.3,<3").specifier
    assert torch.contains("2.3.1") and torch.contains(PINS["torch"])


def test_extras():
    assert set(EXTRAS) == {"book", "test", "train", "export", "torchtext", "peers", "all"}
    (whole,) = map(Requirement, EXTRAS["all"])
    # torchtext needs a torch of its own, so that "all" cannot have it; peers are to compare with
    assert whole.name == PROJECT["name"]
    assert whole.extras == set(EXTRAS) - {"all", "torchtext", "peers"}
    assert all(
        r.specifier for name in set(EXTRAS) - {"all"} for r in map(Requirement, EXTRAS[name])
    )


def test_environment_yml_installs_what_make_installs():
    conda, pip = environment("environment.yml")
    extras = re.search(r"^EXTRAS := (\S+)$", MAKEFILE, re.M)
    assert extras and f"-e .[{extras[1]}]" in pip
    assert "-c constraints.txt" in pip, "the proven versions"
    assert {"pip", "make"} <= set(conda)
    (python,) = (p.split("=")[1] for p in conda if p.startswith("python="))
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


def test_environment_torchtext_yml():
    conda, pip = environment("environment-torchtext.yml")
    (project,) = (p for p in pip if p.startswith("-e"))
    assert "torchtext" in project.split("[")[1]
    fixed, extra = requirements(p for p in pip if p[0] != "-"), requirements(EXTRAS["torchtext"])
    assert set(fixed) == set(extra) == {"numpy", "portalocker", "torch", "torchdata", "torchtext"}
    for name in ("portalocker", "torchdata"):  # which torchtext's data sets need and do not name
        assert fixed[name].specifier == extra[name].specifier
    for name in ("torch", "torchtext"):
        (spec,) = fixed[name].specifier
        assert spec.operator == "==" and extra[name].specifier.contains(spec.version)
    assert str(fixed["torchtext"].specifier) == "==0.18.0", "its last release"
    assert str(fixed["numpy"].specifier) == str(extra["numpy"].specifier) == "<2"
    torch = next(iter(fixed["torch"].specifier)).version
    assert requirements(PROJECT["dependencies"])["torch"].specifier.contains(torch)
    assert f"TORCH=torch=={torch} " in MAKEFILE, "make torchtext installs the same"


# ---- commands -----------------------------------------------------------------------------------


def make(*args: str) -> str:
    run = subprocess.run(
        ["make", "-s", *args], cwd=ROOT, text=True, capture_output=True, check=True
    )
    return run.stdout


def test_help_is_the_default_and_lists_every_target():
    listed = re.findall(r"^  ([a-z-]+) +\S", make(), re.M)
    assert make() == make("help")
    assert sorted(listed) == sorted(TARGETS)
    wanted = (
        "book test serve chapters refresh studies gpu lint unit sphinx torchtext lock clean help"
    )
    assert set(wanted.split()) <= TARGETS


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".ci/run", "CHANGELOG.md"])
def test_documents_name_targets_that_exist(name):
    text = "\n".join(
        re.findall(r"`([^`]*)`", read(name)) + re.findall(r"^ *make .*$", read(name), re.M)
    )
    asked = re.findall(r"\bmake\b((?: +(?:[A-Z_]+=(?:\"[^\"]*\"|\S*)|[a-z][a-z-]*\b))+)", text)
    used = {w for a in asked for w in re.sub(r'[A-Z_]+=("[^"]*"|\S*)', "", a).split()}
    assert used <= TARGETS
    if name in {"README.md", ".ci/run"}:
        assert {"book", "test"} <= used


def test_ci_runs_the_two_commands_of_the_readme_and_nothing_else():
    lines = [x for x in read(".ci/run").splitlines() if x and not x.startswith("#")]
    assert lines == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "make book", "make test"]
    assert (ROOT / ".ci/run").stat().st_mode & 0o111, "executable"


def test_gpu_fails_clearly_where_there_is_no_cuda():
    torch = importlib.import_module("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    script = re.search(r"^gpu:.*\n\t@\$\(BIN\)/python -c '(.*)'$", MAKEFILE, re.M)
    assert script, "the check comes before anything else that `make gpu` does"
    run = subprocess.run(
        [importlib.import_module("sys").executable, "-c", script[1]],
        text=True,
        capture_output=True,
    )
    assert run.returncode == 1 and "sees no CUDA device" in run.stderr
    assert "Traceback" not in run.stderr


# ---- workflows ----------------------------------------------------------------------------------

WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_workflow(path):
    flow = yaml.safe_load(path.read_text())
    steps = [s for job in flow["jobs"].values() for s in job["steps"]]
    runs = [s["run"] for s in steps if "run" in s]
    assert flow["permissions"] == {"contents": "read"}, (
        "minimal, and raised in the job that needs more"
    )
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@v\d+", s["uses"]) for s in steps if "uses" in s)
    for run in runs:
        words = re.sub(r'[A-Z_]+=("[^"]*"|\S*)', "", run).split()
        assert words[0] == "make" and words[1:] and set(words[1:]) <= TARGETS, run
    assert all(
        job.get("timeout-minutes") or "deploy" in name for name, job in flow["jobs"].items()
    )


def test_workflows_cover_what_the_readme_promises():
    flows = {p.stem: yaml.safe_load(p.read_text()) for p in WORKFLOWS}
    assert set(flows) == {"tests", "gpu", "weekly", "pages"}
    low, high = re.findall(r"3\.(\d+)", PROJECT["requires-python"])
    promised = [f"3.{minor}" for minor in range(int(low), int(high))]
    assert flows["tests"]["jobs"]["cpu"]["strategy"]["matrix"]["python"] == promised
    for flow in flows.values():  # a page nobody opened in a browser is not checked
        steps = [s for job in flow["jobs"].values() for s in job["steps"]]
        tests = [s for s in steps if s.get("run", "").endswith(" test")]
        assert all(s["env"]["COMPANION_BROWSER"] == "1" for s in tests)
    assert "schedule" in flows["weekly"][True]  # YAML reads the key `on` as true
    weekly = {"newest", "sphinx", "pdf", "torchtext", "peers", "studies", "links"}
    assert set(flows["weekly"]["jobs"]) == weekly


# ---- files --------------------------------------------------------------------------------------


def tracked() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        run = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in run.stdout.split("\0") if name]
    return [p for p in paths if p.is_file()]


# written in pieces, so that this file does not hold what it forbids
MACHINE = re.compile(
    "|".join(
        ["/" + "work/", "/" + "tmp/", "/" + r"home/\w", "/" + "root/", "/" + r"Users/\w", "pyenv/"]
    )
)
REGISTRY = re.compile(
    r"(?<![\w.])"
    + "(?:"
    + "|".join([r"pypi\.", r"files\.python" + "hosted", r"registry\."])
    + r")(?:org|npmjs)"
)


def test_no_file_holds_a_path_of_a_machine_or_a_registry():
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for n, line in enumerate(text.splitlines(), 1):
            if (MACHINE.search(line) or REGISTRY.search(line)) and path != Path(__file__):
                found.append(f"{path.relative_to(ROOT)}:{n}: {line.strip()[:100]}")
    assert not found, "\n".join(found)


def test_no_file_is_large_or_generated():
    files = tracked()
    large = [str(p) for p in files if p.stat().st_size > 1_500_000]
    assert not large, "vendored data is small"
    bad = {
        "_build",
        "__pycache__",
        ".ipynb_checkpoints",
        ".venv",
        ".venv-torchtext",
        ".venv-peers",
    }
    assert not [p for p in files if bad & set(p.relative_to(ROOT).parts)]
    assert not [p for p in files if p.suffix in {".pkl", ".pickle", ".pt", ".pth"}], "no pickle"


def test_licenses():
    assert read("LICENSE").startswith("MIT License") and PROJECT["license"] == "MIT"
    book = read("LICENSE-book")
    assert "creativecommons.org/licenses/by/4.0/" in book
    assert "Section 8 -- Interpretation" in book, "the legal text, whole"
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["license"] == ["MIT", "CC-BY-4.0"]
    assert (
        citation["version"]
        == PROJECT["version"]
        == importlib.import_module("companion").__version__
    )
    assert citation["title"] == yaml.safe_load(read("_config.yml"))["title"]


# ---- documentation ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [
        "companion",
        "companion.export",
        "companion.look",
        "companion.data",
        "companion.models",
        "companion.train",
        "companion.train.metrics",
        "companion.tasks",
        "companion.attention",
        "companion.cells",
        "companion.run",
        "companion.run.teaching",
        "companion.bench",
    ],
)
def test_api_page_lists_exactly_the_public_names(module):
    entry = rf"^\.\. (?:auto\w+|py:\w+):: {re.escape(module)}\.(\w+)(?:\(.*\))?$"
    listed = re.findall(entry, read("book/api.md"), re.M)
    public = set(importlib.import_module(module).__all__)
    if module != "companion":  # what the package itself gives is described once, under its name
        public -= set(importlib.import_module("companion").__all__)
    assert sorted(listed) == sorted(public)


def test_readme_examples_run_and_say_the_truth(tmp_path, monkeypatch):
    torch = importlib.import_module("torch")
    example, export = re.findall(r"^```python\n(.*?)^```", read("README.md"), re.M | re.S)
    names: dict = {}
    exec(compile(example, "README.md", "exec"), names)
    reference, x, y = names["reference"], names["x"], names["y"]
    for k, n in enumerate(names["lengths"].tolist()):
        assert y[k, n:].eq(0).all(), "padding gives 0"
        if n:  # what torch computes for this row alone, without its padding
            torch.testing.assert_close(y[k, :n], reference(x[k, :n])[0])
    if not hasattr(torch.onnx, "ops"):
        return  # torch before 2.8 cannot write such files
    monkeypatch.chdir(tmp_path)
    exec(compile(export, "README.md", "exec"), names)
    pieces = torch.cat(list(map(torch.from_numpy, names["pieces"])), 1)
    torch.testing.assert_close(pieces, names["forward"](x)[0])


def test_readme_pictures_exist():
    pictures = re.findall(r'<img src="([^"]+)" width="\d+" alt="([^"]*)">', read("README.md"))
    assert len(pictures) == len(re.findall(r"<img|!\[", read("README.md"))) >= 1
    for name, alt in pictures:
        assert len(alt) >= 20 and (ROOT / name).is_file(), name


def test_every_study_has_its_record():
    scripts = {p.stem for p in ROOT.glob("book/studies/*.py")}
    assert scripts == {p.stem for p in ROOT.glob("book/studies/*.json")}, "make studies"
