"""tools/refresh.py: the normal form of a notebook."""

from __future__ import annotations

import nbformat
import pytest
import refresh
from nbformat import v4


def notebook():
    png = v4.new_output("display_data", {"image/png": "AA==", "text/plain": "<Figure>"})
    html = v4.new_output("execute_result", {"text/html": "<b>1</b>"}, execution_count=7)
    halves = [v4.new_output("stream", name="stdout", text=t) for t in ("one\n", "two\n")]
    figure = {"image": {"alt": "a line"}}
    return v4.new_notebook(
        metadata={"widgets": {}, "kernelspec": {"name": "mine", "display_name": "mine"}},
        cells=[
            v4.new_markdown_cell("# Title", metadata={"editable": True}),
            v4.new_code_cell("print(1)", outputs=halves, execution_count=9),
            v4.new_code_cell("fig", outputs=[png], metadata={"mystnb": figure, "scrolled": True}),
            v4.new_code_cell("df", outputs=[html]),
            v4.new_code_cell("t", outputs=halves, metadata={"tags": ["nbval-ignore-output"]}),
        ],
    )


def test_normal_form():
    nb = notebook()
    new = refresh.normalize(nb)
    assert nb.cells[1].execution_count == 9, "the argument is left alone"
    title, one, fig, df, ignored = new.cells
    assert new.metadata.kernelspec.name == "python3" and set(new.metadata) == set(refresh.KERNEL)
    assert title.metadata == {}
    assert [c.execution_count for c in (one, fig, df, ignored)] == [1, 2, 3, 4]
    assert [o.text for o in one.outputs] == ["one\ntwo\n"], "pieces of one stream are joined"
    assert fig.metadata == {"mystnb": {"image": {"alt": "a line"}}}
    assert fig.outputs[0].data == {"text/plain": "<Figure>"}
    assert df.outputs == [], "an output of HTML alone leaves nothing to compare"
    assert ignored.outputs == [] and ignored.metadata == {"tags": ["nbval-ignore-output"]}


def test_normal_form_is_idempotent():
    once = refresh.normalize(notebook())
    assert refresh.text(refresh.normalize(once)) == refresh.text(once)
    nbformat.validate(once)


def test_check_lists_and_writes_nothing(tmp_path, capsys):
    path = tmp_path / "a.ipynb"
    path.write_text(nbformat.writes(notebook()))
    before = path.read_bytes()
    assert refresh.main(["--check", str(path)]) == 1
    assert "a.ipynb" in capsys.readouterr().err and path.read_bytes() == before
    refresh.write(path, refresh.text(refresh.normalize(notebook())))
    assert refresh.main(["--check", str(path)]) == 0


def test_a_failing_notebook_is_left_as_it_was(tmp_path):
    path = tmp_path / "a.ipynb"
    nb = v4.new_notebook(cells=[v4.new_code_cell("1 / 0")])
    path.write_text(nbformat.writes(nb))
    before = path.read_bytes()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        refresh.main([str(path)])
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_output_on_stderr_is_reported(tmp_path, capsys):
    path = tmp_path / "a.ipynb"
    err = v4.new_output("stream", name="stderr", text="careful")
    nb = v4.new_notebook(cells=[v4.new_code_cell("warn()", id="loud", outputs=[err])])
    path.write_text(refresh.text(refresh.normalize(nb)))
    assert refresh.main(["--check", str(path)]) == 1
    assert "cell loud writes to stderr" in capsys.readouterr().err


def test_refresh_executes(tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text(nbformat.writes(v4.new_notebook(cells=[v4.new_code_cell("print(6 * 7)")])))
    assert refresh.main([str(path)]) == 0
    cell = nbformat.read(path, as_version=4).cells[0]
    assert cell.outputs[0].text == "42\n" and cell.execution_count == 1
    assert refresh.main(["--check", str(path)]) == 0
