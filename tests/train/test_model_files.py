"""Models as files: what is in them, and what is said of those that do not fit."""

import json
import os

import pytest
import torch
from safetensors import safe_open
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


def deep(n):
    config = {}
    for _ in range(n):
        config = {"a": config}
    return config


@pytest.mark.parametrize(
    "config",
    [
        {"a": (1,)},
        {1: 2},
        {"a": {1}},
        {"a": float("nan")},
        {"a": torch.ones(1)},
        [3],
        [("a", 1)],
        "",
        deep(5000),
    ],
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
    with pytest.raises(TypeError, match="weight has no shape yet"):
        save_model(nn.LazyLinear(1), tmp_path / "m")


def renaming(module, state, prefix, metadata):
    state["w"] = state.pop("weight")


def dropping(module, state, prefix, metadata):
    del state["bias"]


def adding(module, state, prefix, metadata):
    state["more"] = torch.ones(1)


@pytest.mark.parametrize("hook, name", [(renaming, "w"), (dropping, "bias"), (adding, "more")])
def test_weights_that_would_be_lost_are_named(tmp_path, hook, name):
    net = nn.Linear(2, 2)
    net._register_state_dict_hook(hook)
    with pytest.raises(TypeError, match=f"^model: {name} is not in its state_dict as"):
        save_model(net, tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:.*quant.*")
def test_weights_that_are_no_tensors_are_named(tmp_path):
    class Packed(nn.Linear):
        """As a quantized layer: the state_dict has them in an object."""

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            destination[f"{prefix}packed"] = (self.weight, self.bias)

    with pytest.raises(TypeError, match="^model: packed is not in its state_dict as"):
        save_model(Packed(1, 1), tmp_path / "m")


def test_complex_weights_come_back(tmp_path):
    net, other = nn.Linear(2, 1, dtype=torch.complex64), nn.Linear(2, 1, dtype=torch.complex128)
    save_model(net, tmp_path / "m")
    load_weights(other, tmp_path / "m")
    assert torch.equal(other.weight.to(torch.complex64), net.weight) and net.weight.imag.any()
    real = nn.Linear(2, 1)
    with pytest.raises(CheckpointError, match="is of torch.complex64, which .* cannot hold"):
        load_weights(real, tmp_path / "m")


class Masked(nn.Linear):
    def __init__(self, value):
        super().__init__(1, 1)
        self.register_buffer("mask", torch.full((1, 3), value).expand(4, 3))


def test_a_buffer_that_repeats_its_memory(tmp_path):
    save_model(Masked(2.0), tmp_path / "m")
    other = Masked(0.0)
    load_weights(other, tmp_path / "m")
    assert torch.equal(other.mask, torch.full((4, 3), 2.0))


def test_a_model_that_cannot_hold_the_weights_is_as_it_was(tmp_path):
    save_model(nn.Linear(2, 2), tmp_path / "m")
    for make, message in (
        (lambda: nn.Linear(2, 2, device="meta"), "weight is on the meta device"),
        (lambda: nn.LazyLinear(2), "weight has no shape yet"),
    ):
        with pytest.raises(ValueError, match=f"^model: {message}"):
            load_weights(make(), tmp_path / "m")
    net = nn.Linear(1, 1)
    net.register_buffer("n", torch.tensor([1.75]))
    save_model(net, tmp_path / "m")
    other = nn.Linear(1, 1)
    other.register_buffer("n", torch.tensor([0]))
    before = other.weight.item()
    with pytest.raises(
        CheckpointError, match="n is of torch.float32, which the model's torch.int"
    ):
        load_weights(other, tmp_path / "m")
    assert other.weight.item() == before and other.n == 0


def test_a_configuration_that_was_changed_is_named(tmp_path):
    path = tmp_path / "m"
    save_model(model(), path, {"hidden": 128})
    data = path.read_bytes()
    assert data.count(b"128}") == 1
    path.write_bytes(data.replace(b"128}", b"928}"))
    for read in (read_config, lambda p: load_weights(model(), p)):
        with pytest.raises(CheckpointError, match="the configuration was changed since"):
            read(path)


def test_files_of_the_first_release_are_read(tmp_path):
    """They have no digest of the header."""
    path = tmp_path / "m"
    save_model(model(), path, CONFIG)
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["about"])
    del about["about_sha256"], about["complex"]
    save_file(load_file(path), path, {"about": json.dumps(about)})
    other = model(1)
    assert read_config(path) == load_weights(other, path) == CONFIG
    assert torch.equal(other["tied"].weight, model()["tied"].weight)


@pytest.mark.parametrize("lacking", ["config", "sha256"])
def test_a_header_that_lacks_something_is_named(tmp_path, lacking):
    about = {"format": "recurrence-companion model", "version": 1, "config": {}, "sha256": "0"}
    about["config" if lacking == "config" else "sha256"] = [1]
    save_file({"a": torch.ones(1)}, tmp_path / "m", {"about": json.dumps(about)})
    for read in (read_config, lambda p: load_weights(nn.Linear(1, 1), p)):
        with pytest.raises(CheckpointError, match="its header lacks the configuration or the dig"):
            read(tmp_path / "m")


def test_paths(tmp_path, monkeypatch):
    net = nn.Linear(1, 1)
    with pytest.raises(
        IsADirectoryError, match=f"path: expected a file, got a folder.*{tmp_path}"
    ):
        save_model(net, tmp_path)
    with pytest.raises(FileNotFoundError, match="path: there is no folder for.*none/m"):
        save_model(net, tmp_path / "none" / "m")
    for wrong in (None, 3):
        with pytest.raises(TypeError, match="path must be the path of a file, got"):
            save_model(net, wrong)
        with pytest.raises(TypeError, match="path must be the path of a file, got"):
            read_config(wrong)
    for function in (save_model, load_weights):
        with pytest.raises(TypeError, match="model must be a torch.nn.Module, got NoneType"):
            function(None, tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    long = "n" * 255  # as long as a name can be
    for path in ("m", os.fsencode(tmp_path / "b"), tmp_path / long):
        save_model(net, path, {"n": 1})
        assert read_config(path) == load_weights(net, path) == {"n": 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "m", long]


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


@pytest.mark.parametrize("names", [["weight"], ["none"], 3])
def test_a_header_that_does_not_fit_its_weights(tmp_path, names):
    save_model(nn.Linear(3, 1), tmp_path / "m")
    with safe_open(tmp_path / "m", "pt") as file:
        about = json.loads(file.metadata()["about"])
    del about["about_sha256"]
    about["complex"] = names
    save_file(load_file(tmp_path / "m"), tmp_path / "m", {"about": json.dumps(about)})
    with pytest.raises(CheckpointError, match="its header does not fit its weights"):
        load_weights(nn.Linear(3, 1), tmp_path / "m")
