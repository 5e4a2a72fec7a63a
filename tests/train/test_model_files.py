"""Models as files: what is in them, and what is said of those that do not fit."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import companion
from companion.train import CheckpointError, load_weights, read_config, save_model

CONFIG = {"kind": "LSTM", "sizes": [3, 4], "tied": True, "rate": 0.5, "note": None, "é": {"a": 1}}


def model(seed=0, hidden=4):
    torch.manual_seed(seed)
    net = nn.ModuleDict({"rnn": companion.LSTM(3, hidden, 2), "norm": nn.BatchNorm1d(4)})
    net["tied"] = nn.Linear(4, 4)
    net["tied_too"] = nn.Linear(4, 4)
    net["tied_too"].weight = net["tied"].weight
    net.register_buffer("scratch", torch.zeros(2), persistent=False)
    return net


def test_weights_and_configuration_come_back(tmp_path):
    path = tmp_path / "m.safetensors"
    save_model(model(), path, CONFIG)
    other = model(1)
    assert load_weights(other, str(path)) == read_config(path) == CONFIG
    for (name, a), b in zip(
        model().state_dict().items(), other.state_dict().values(), strict=True
    ):
        assert torch.equal(a, b), name
    assert other["tied"].weight is other["tied_too"].weight
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_the_file_is_plain_safetensors(tmp_path):
    save_model(model(), tmp_path / "m", CONFIG)
    found = load_file(tmp_path / "m")
    names = set(model().state_dict()) - {"tied_too.weight"}
    assert set(found) == names  # tied ones once, scratch not at all
    net = model(1)
    net.load_state_dict(found, strict=False)
    assert torch.equal(net["tied_too"].weight, model()["tied"].weight)


def test_dtype_and_layout_are_the_models(tmp_path):
    net = nn.Linear(3, 2)
    net.weight = nn.Parameter(torch.randn(3, 2).t())
    save_model(net, tmp_path / "m")
    other = nn.Linear(3, 2).double()
    load_weights(other, tmp_path / "m")
    assert other.weight.dtype == torch.float64 and torch.equal(other.weight.float(), net.weight)


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "m"
    save_model(model(0), path, {"n": 0})

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            save_model(model(1), path, {"n": 1})
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert read_config(path) == {"n": 0} and load_weights(model(2), path) == {"n": 0}
    save_model(model(1), path, {"n": 1})
    assert load_weights(model(2), path) == {"n": 1}


@pytest.mark.parametrize(
    "config", [{"a": (1,)}, {1: 2}, {"a": {1}}, {"a": float("nan")}, {"a": torch.ones(1)}, [3]]
)
def test_a_configuration_that_is_not_json(tmp_path, config):
    with pytest.raises(TypeError, match="^config: expected"):
        save_model(model(), tmp_path / "m", config)
    assert not list(tmp_path.iterdir())


def test_tensors_that_cannot_be_held(tmp_path):
    net = model()
    net.register_buffer("adj", torch.eye(2).to_sparse())
    with pytest.raises(TypeError, match="^adj is a sparse_coo tensor"):
        save_model(net, tmp_path / "m")

    class Extra(nn.Linear):
        def get_extra_state(self):
            return {"words": []}

    with pytest.raises(TypeError, match="_extra_state is no tensor"):
        save_model(Extra(1, 1), tmp_path / "m")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda p: p.write_bytes(p.read_bytes()[:-5]), "m cannot be read as safetensors"),
        (lambda p: p.write_bytes(b"PK" + p.read_bytes()), "m cannot be read as safetensors"),
        (lambda p: p.write_bytes(b""), "m cannot be read as safetensors"),
        (lambda p: torch.save({"a": 1}, p), "m cannot be read as safetensors"),
        (lambda p: save_file({"a": torch.ones(1)}, p), "expected 'recurrence-companion model'"),
        (lambda p: save_file({}, p, {"about": "[1]"}), "m cannot be read as safetensors"),
        (lambda p: p.write_bytes(p.read_bytes()[:-1] + b"\x01"), "the weights were changed"),
        (lambda p: save_model(model(hidden=5), p), r"rnn.weight_ih_l0 has shape \(20, 3\), the"),
        (lambda p: save_model(nn.Linear(1, 1), p), r"another model \(torch.nn.*Linear\): it lack"),
    ],
)
def test_files_that_do_not_fit_change_nothing(tmp_path, change, message):
    path = tmp_path / "m"
    save_model(model(), path)
    change(path)
    net = model(1)
    with pytest.raises(CheckpointError, match=message):
        load_weights(net, path)
    for (name, a), b in zip(model(1).state_dict().items(), net.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_another_version_and_no_file(tmp_path):
    about = {"format": "recurrence-companion model", "version": 7}
    save_file({"a": torch.ones(1)}, tmp_path / "m", {"about": json.dumps(about)})
    with pytest.raises(CheckpointError, match="version 1, got .*version 7"):
        read_config(tmp_path / "m")
    with pytest.raises(FileNotFoundError, match="path: there is no file .*none"):
        load_weights(model(), tmp_path / "none")
