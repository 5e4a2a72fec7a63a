"""The book shows the package's source, and nothing else."""

import ast
import inspect
import sys
from types import SimpleNamespace

import pytest
import torch

from companion.look import ShapeLedger, claim, show_source
from companion.look.recorded import Recorded
from companion.look.source import source


def test_function_is_its_own_source():
    first, _, rest = source(claim).partition("\n")
    assert first == "# companion/look/claims.py: claim"
    assert rest == inspect.getsource(claim).rstrip()


def test_method_is_dedented():
    text = source(ShapeLedger.check)
    assert text.splitlines()[0] == "# companion/look/shapes.py: ShapeLedger.check"
    assert text.splitlines()[1].startswith("def check(self")
    ast.parse(text)


def test_property_and_package_file():
    assert "Recorded.mean" in source(Recorded.mean)
    from companion.look import chapter

    assert source(chapter).startswith("# companion/look/__init__.py: chapter\n")


@pytest.mark.parametrize("obj", [claim, ShapeLedger, ShapeLedger.check])
def test_without_docstring_only_the_docstrings_go(obj):
    bare = source(obj, docstring=False)
    assert '"""' not in bare and "raise" in bare

    def stripped(text):
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
                node.body = node.body[1:]
        return ast.dump(tree)

    assert stripped(bare) == stripped(source(obj))
    assert "\n\n\n" not in bare


def test_a_body_of_nothing_but_a_docstring_keeps_it():
    text = source(Recorded._ipython_display_, docstring=False)
    ast.parse(text)
    assert '"""' in text


@pytest.mark.parametrize(
    "obj", [torch.nn.RNN, torch.nn.RNN.forward, len, print, ast.parse, torch.tanh, int]
)
def test_other_peoples_code_is_refused(obj):
    with pytest.raises(ValueError, match="defined in companion"):
        show_source(obj)


@pytest.mark.parametrize("obj", [3, "claim", None, torch.zeros(2), ShapeLedger()])
def test_things_without_source_are_refused(obj):
    with pytest.raises(ValueError, match="obj must be"):
        show_source(obj)


def test_made_at_run_time():
    def fake():
        pass

    exec(compile("def f(): pass", "<made>", "exec"), space := {"__name__": "companion.made"})
    with pytest.raises(ValueError, match="has no Python source"):
        show_source(space["f"])
    with pytest.raises(ValueError, match="comes from tests"):
        show_source(fake)


def test_printed_outside_a_notebook(capsys):
    show_source(claim)
    assert capsys.readouterr().out == source(claim) + "\n"


def test_displayed_in_a_notebook(monkeypatch):
    shown = []

    class ZMQInteractiveShell:
        pass

    display = SimpleNamespace(display=lambda bundle, raw: shown.append((bundle, raw)))
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell, display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    show_source(show_source)  # its source holds a run of backticks of its own
    ((bundle, raw),) = shown
    text = source(show_source)
    assert raw and bundle["text/plain"] == text
    fence = bundle["text/markdown"].partition("python\n")[0]
    assert set(fence) == {"`"} and len(fence) >= 3 and fence not in text
    assert bundle["text/markdown"] == f"{fence}python\n{text}\n{fence}"
