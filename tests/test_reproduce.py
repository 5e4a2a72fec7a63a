"""Seeds, device and determinism."""

import random
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch

from companion.reproduce import default_device, deterministic, seed_all


def draws():
    return random.random(), np.random.rand(), torch.rand(()).item()


def test_seed_all_fixes_all_three_generators():
    seed_all(7)
    first = draws()
    later = draws()
    seed_all(np.int64(7))
    assert draws() == first
    assert all(a != b for a, b in zip(first, later, strict=True))


@pytest.mark.parametrize("bad", [1.0, "1", True, None])
def test_seed_must_be_an_int(bad):
    with pytest.raises(TypeError, match="seed must be an int"):
        seed_all(bad)


@pytest.mark.parametrize("bad", [-1, 2**32])
def test_seed_range(bad):
    with pytest.raises(ValueError, match=str(bad)):
        seed_all(bad)


@pytest.mark.parametrize("value", ["cpu", " CPU ", "", None])
def test_device_defaults_to_cpu(monkeypatch, value):
    if value is None:
        monkeypatch.delenv("COMPANION_DEVICE", raising=False)
    else:
        monkeypatch.setenv("COMPANION_DEVICE", value)
    assert default_device() == torch.device("cpu")


@pytest.mark.parametrize("value", ["gpu", "meta", "cuda:x", "cpu,cuda"])
def test_unknown_device(monkeypatch, value):
    monkeypatch.setenv("COMPANION_DEVICE", value)
    with pytest.raises(ValueError, match="COMPANION_DEVICE must be"):
        default_device()


@pytest.mark.parametrize("count, value", [(0, "cuda"), (0, "cuda:0"), (2, "cuda:2")])
def test_absent_cuda_is_said(monkeypatch, count, value):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setenv("COMPANION_DEVICE", value)
    with pytest.raises(RuntimeError, match=f"COMPANION_DEVICE={value} .* sees {count}"):
        default_device()


@pytest.mark.parametrize("value", ["cuda", "cuda:1"])
def test_present_cuda_is_taken(monkeypatch, value):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setenv("COMPANION_DEVICE", value)
    assert default_device() == torch.device(value)


def test_absent_mps_is_said(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setenv("COMPANION_DEVICE", "mps")
    with pytest.raises(RuntimeError, match="mps"):
        default_device()


def test_deterministic_sets_every_switch(monkeypatch):
    import os

    monkeypatch.delenv("COMPANION_DEVICE", raising=False)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    torch.backends.cudnn.benchmark = True
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deterministic()
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.deterministic
    # readable too: torch raises here when old and new TF32 names were mixed
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def test_users_workspace_setting_stays(monkeypatch):
    import os

    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    deterministic()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_chapter_is_silent_and_light_imports_stay_light():
    code = (
        "import sys, torch; before = set(sys.modules)\n"
        "import companion, companion.look, companion.train\n"
        "heavy = {'matplotlib', 'pandas', 'sklearn', 'pooch', 'tqdm', 'IPython'}\n"
        "new = heavy & set(sys.modules) - before; assert not new, new\n"
        "assert companion.look.chapter(3).type == 'cpu'\n"
        "import torch; assert torch.initial_seed() == 3\n"
    )
    environment = {"PATH": "/usr/bin", "COMPANION_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
