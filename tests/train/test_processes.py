"""Two processes, started by torchrun, against one that accumulates twice as many batches."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from companion.train import CheckpointError
from companion.train.checkpoint import Store
from companion.train.processes import Alone, processes
from companion.train.storage import read

WORKER = Path(__file__).with_name("worker.py")
KINDS = [
    "plain",
    "float32",
    "accumulated",
    "bf16",
    "faults",
    "shuffled",
    "stream",
    "uneven",
    "normed",
]

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="TWO PROCESSES ARE NOT TESTED HERE: this build of torch has no gloo",
)


def start(processes, kinds, out, *folder):
    pytest.importorskip("accelerate", reason="TWO PROCESSES ARE NOT TESTED HERE: no accelerate")
    out.mkdir(exist_ok=True)
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    command = [*(torchrun if processes > 1 else []), WORKER, ",".join(kinds), out, *folder]
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    environment = {k: v for k, v in os.environ.items() if k not in names}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {kind: read(out / f"{kind}.safetensors") for kind in kinds}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    both = ["resumed", *KINDS]
    return start(1, KINDS, folder / "one"), start(2, both, folder / "two", folder / "kept"), folder


def close(one, two, atol):
    assert (one["world"], two["world"]) == (1, 2)
    for a, b in zip(one["weights"], two["weights"], strict=True):
        torch.testing.assert_close(b, a, rtol=0, atol=atol)


@pytest.mark.parametrize(
    "kind, atol",
    [
        ("plain", 1e-12),
        ("float32", 1e-6),
        ("accumulated", 1e-12),
        ("faults", 1e-12),
        ("stream", 1e-12),
        ("uneven", 1e-12),
    ],
)
def test_two_processes_are_one_on_the_same_batches(runs, kind, atol):
    one, two = (run[kind] for run in runs[:2])
    close(one, two, atol)
    if kind != "uneven":  # its one process trains in two calls
        for name, column in one["history"].items():
            if name != "skipped" and not name.endswith("metrics"):
                want = pytest.approx(column, rel=max(atol, 1e-10), nan_ok=True)
                assert two["history"][name] == want, name
        for table in ("train_metrics", "valid_metrics"):
            for name, column in one["history"][table].items():
                want = pytest.approx(column, rel=1e-4, nan_ok=True)
                assert two["history"][table][name] == want, name


@pytest.mark.parametrize("kind", KINDS)
def test_all_processes_end_with_the_same(runs, kind):
    (history, weights), (other_history, other_weights) = runs[1][kind]["everywhere"]
    assert all(torch.equal(a, b) for a, b in zip(weights, other_weights, strict=True))
    assert repr(history) == repr(other_history)


def test_a_fault_in_one_process_skips_the_step_of_both(runs):
    one, two = (run["faults"]["history"]["skipped"] for run in runs[:2])
    nan, root = "loss nan is not finite", "gradient of out.bias is not finite"
    in_an_epoch = [(2, "weight 0"), (3, nan), (6, root), (7, "weight 0"), (8, "weight 0")]
    # steps: (1, 2) (3, 4) (5, 6) (7, 8) (9, 10)
    assert two == one == [(epoch, *entry) for epoch in (1, 2) for entry in in_an_epoch]
    assert len(runs[1]["faults"]["history"]["grad_norm"]) == 4


def test_low_precision_trains_alike(runs):
    one, two = (run["bf16"] for run in runs[:2])
    assert one["weights"][0].dtype == torch.float32
    losses = one["history"]["train_loss"]
    assert losses[-1] < losses[0]
    # 8 bits of a number: what is left of the full-precision run
    assert losses == pytest.approx(runs[0]["float32"]["history"]["train_loss"], rel=0.02)
    assert losses != runs[0]["float32"]["history"]["train_loss"]
    assert two["history"]["train_loss"] == pytest.approx(losses, rel=0.02)


def test_the_batches_are_shared_and_the_dropout_is_not(runs):
    history = runs[1]["shuffled"]["history"]
    seen = history["train_metrics"]["seen"]
    halves = [seen[:12], seen[12:]]  # of 8 batches in 3 epochs each process took 4
    for epoch in range(3):
        parts = [half[4 * epoch : 4 * epoch + 4] for half in halves]
        assert len(set(sum(parts, []))) == 8, "every batch once an epoch"
    assert halves[0][:4] != halves[0][4:8], "shuffled anew"
    first, second = history["valid_metrics"]["draws"]
    assert first != second


def test_two_processes_resume_exactly(runs, tmp_path):
    whole, kept = runs[1]["resumed"], tmp_path / "kept"
    shutil.copytree(runs[2] / "kept", kept)
    names = sorted(path.name for path in kept.iterdir())
    assert names[5:7] == ["epochs-0001-batches-00000002", "epochs-0001-batches-00000004"]
    for name in names[6:]:
        shutil.rmtree(kept / name)
    again = start(2, ["resumed"], tmp_path, kept)["resumed"]
    assert all(map(torch.equal, whole["weights"], again["weights"]))
    assert repr(whole["history"]) == repr(again["history"])
    assert len(again["history"]["grad_norm"]) == 12


def test_checkpoints_of_processes_that_have_read_differently_much(runs):
    folder = runs[2] / "kept" / "uneven"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["epochs-0000-batches-00000004", "epochs-0001-batches-00000000"]
    other = read(folder / names[0] / "process-1.safetensors")
    assert other["epoch"]["read"] == 2


def test_a_run_of_two_is_not_resumed_by_one(runs):
    store = Store(runs[2] / "kept", 2, Alone(torch.device("cpu")))
    with pytest.raises(CheckpointError, match="is of 2 processes, this run has 1"):
        store.load(torch.device("cpu"))


def test_without_accelerate_it_is_named(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    pattern = r'several processes need accelerate.*pip install -e "\.\[train\]"$'
    with pytest.raises(ModuleNotFoundError, match=pattern):
        processes(torch.device("cpu"))


def test_one_process_does_without_it(tmp_path):
    code = (
        "import sys, torch, companion.train as t; m = torch.nn.Linear(1, 1)\n"
        "sys.modules['accelerate'] = None\n"
        "sgd = torch.optim.SGD(m.parameters(), 0.1)\n"
        "t.Trainer(m, lambda m, x: (m(x).mean(), 1), sgd, precision='bf16', accumulate=2).fit(\n"
        "    [torch.ones(2, 1)] * 3, checkpoint=sys.argv[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "kept"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "kept").iterdir())) == 1
