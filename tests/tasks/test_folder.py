"""A run's folder: what it was told stays, also if the data came out of a stream."""

import hashlib
import io
import json
import types

import pytest

from companion.tasks import TASKS, FileError, FolderError, train
from companion.tasks.files import read_bytes
from companion.tasks.folder import RunFolder
from tests.tasks.toys import reviews

SETTINGS = TASKS["classify"].Settings


def typed(monkeypatch, content, terminal=False):
    buffer = io.BytesIO(content)
    buffer.isatty = lambda: terminal
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=buffer))


@pytest.fixture
def run(tmp_path):
    reviews(tmp_path / "a.csv")
    folder = RunFolder(tmp_path / "run")
    folder.begin("classify", SETTINGS(), {"train": tmp_path / "a.csv"})
    return folder


def test_what_is_told_is_read_back(run, tmp_path):
    kind, settings, files = run.read(TASKS)
    assert (kind, settings) == (TASKS["classify"], SETTINGS())
    assert files == {"train": tmp_path / "a.csv"}


@pytest.mark.parametrize("key", ["learning_rate", "epochs", "seed", "cell", "digest", "seal"])
def test_an_edited_configuration_is_refused(run, key):
    """Half of an edited rate would hold: the optimizer comes from the checkpoint."""
    path = run.path / "config.json"
    config = json.loads(path.read_text())
    if key == "digest":
        config["files"]["train"]["sha256"] = hashlib.sha256(b"").hexdigest()
    elif key == "seal":
        del config["seal"]
    else:
        value = config["settings"][key]
        config["settings"][key] = "gru" if key == "cell" else value * 2 + 1
    path.write_text(json.dumps(config))
    with pytest.raises(FolderError, match=r"config.json: was changed since the run began; a res"):
        run.read(TASKS)


def test_moved_data_are_found_where_the_configuration_says(run, tmp_path):
    moved = (tmp_path / "a.csv").rename(tmp_path / "b.csv")
    with pytest.raises(FileError, match="a.csv: there is no such file; the run was trained on it"):
        run.read(TASKS)
    path = run.path / "config.json"
    config = json.loads(path.read_text())
    config["files"]["train"]["path"] = str(moved)
    path.write_text(json.dumps(config))
    assert run.read(TASKS)[2] == {"train": moved}
    moved.write_text("text,label\na,+\n")
    with pytest.raises(FileError, match="b.csv: was changed since the run began"):
        run.read(TASKS)


def test_nothing_can_be_written(run, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("companion.tasks.folder.write_bytes", full)
    with pytest.raises(FolderError) as error:
        run.write("metrics.json", {})
    assert str(error.value) == (
        f"{run.path / 'metrics.json'} cannot be written to: No space left on device"
    )


def test_a_run_from_standard_input(tmp_path, monkeypatch):
    """What was read is what the digest is of; the same data once more let a run go on."""
    content = reviews(tmp_path / "a.csv").read_bytes()
    settings = SETTINGS(hidden_size=8, epochs=1, batch_size=8)
    said = {"device": "cpu", "say": lambda line: None}
    for source, name in (("-", "stream"), (tmp_path / "a.csv", "file")):
        typed(monkeypatch, content)
        train(TASKS["classify"], source, settings, folder=tmp_path / name, **said)
    one, two = (tmp_path / name / "metrics.json" for name in ("stream", "file"))
    assert one.read_bytes() == two.read_bytes()
    run = RunFolder(tmp_path / "stream")
    entry = json.loads((run.path / "config.json").read_text())["files"]["train"]
    assert entry == {"path": "-", "sha256": hashlib.sha256(content).hexdigest()}
    typed(monkeypatch, content)
    assert str(run.read(TASKS)[2]["train"]) == "-" and read_bytes("-") == content
    typed(monkeypatch, content + b"more,+\n")
    with pytest.raises(FileError, match="standard input: expected the data that the run was tra"):
        run.read(TASKS)
    typed(monkeypatch, b"", terminal=True)  # nobody would know what is waited for
    with pytest.raises(FileError, match="standard input: expected the data .* once more"):
        run.read(TASKS)


def test_two_runs_do_not_share_a_new_folder(tmp_path, monkeypatch):
    """The second one looked before the first one's folder was there."""
    data, folder = reviews(tmp_path / "a.csv"), RunFolder(tmp_path / "run")

    def meanwhile(path):
        folder.path.mkdir()
        return "0" * 64

    monkeypatch.setattr("companion.tasks.folder.digest_of", meanwhile)
    with pytest.raises(FolderError, match="run: something has just been put there"):
        folder.begin("classify", SETTINGS(), {"train": data})
    assert not any(folder.path.iterdir())
    monkeypatch.setattr("companion.tasks.folder.digest_of", lambda path: "0" * 64)
    folder.begin("classify", SETTINGS(), {"train": data})  # an empty one is a new one
    assert [path.name for path in folder.path.iterdir()] == ["config.json"]
