"""Values to safetensors and JSON, and back to the last bit."""

import json
import math
from collections import Counter, OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from torch import nn

from companion.train.storage import digest, pack, read, unpack, write


def same(a, b):
    assert type(a) is type(b), (type(a), type(b))
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
        assert torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))
        assert torch.equal(a.isnan(), b.isnan())
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    else:
        assert a == b or (a != a and b != b)


VALUES = [
    None,
    True,
    3,
    2**130,
    0.1,
    5e-324,
    -0.0,
    math.nan,
    -math.inf,
    "é\n",
    [],
    (),
    {},
    (1, [2.5, (None, "x")]),
    {3: "a", "b.c": {"d": (1,)}, (1, 2): 0.5},
    OrderedDict(z=1, a=2),
    Counter({4: 2, 1: 1}),
    {"tensor": 1, "float": 2},  # names that the format uses itself
    torch.arange(6).reshape(2, 3),
    torch.tensor(2.5, dtype=torch.bfloat16),
    torch.zeros(0, 3),
    torch.tensor([True, False]),
    torch.tensor([1.0, math.nan, -math.inf]),
    torch.randn(3, dtype=torch.complex128),
    torch.arange(12.0).reshape(3, 4).t(),  # other strides, no gaps
    torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    np.arange(5, dtype=np.uint32),
    np.zeros((2, 0)),
]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_every_value_comes_back(value, tmp_path):
    write(tmp_path / "x", {"value": value, "again": [value, value]})
    found = read(tmp_path / "x")
    same(found, {"value": value, "again": [value, value]})
    json.loads(json.dumps(pack(value, {}, "x"), allow_nan=False))  # strict JSON


def test_states_of_every_generator_come_back(tmp_path):
    import random

    generators = [np.random.Generator(b(3)) for b in (np.random.PCG64, np.random.Philox)]
    states = [g.bit_generator.state for g in generators]
    states += [random.Random(1).getstate(), np.random.RandomState(2).get_state(legacy=False)]
    write(tmp_path / "x", states)
    same(read(tmp_path / "x"), states)


def test_a_view_with_gaps_is_held_without_them():
    h = torch.arange(24.0).reshape(2, 3, 4)[:, -1]
    tensors = {}
    found = unpack(pack(h, tensors, "h"), tensors)
    assert torch.equal(found, h) and found.is_contiguous()
    assert tensors["h"].numel() == 8


def test_tensors_that_share_memory_are_held_apart(tmp_path):
    x = torch.arange(6.0)
    write(tmp_path / "x", {"a": x, "b": x[2:], "c": x.view(2, 3)})
    found = read(tmp_path / "x")
    assert torch.equal(found["b"], x[2:]) and found["a"].data_ptr() != found["c"].data_ptr()


Pair = namedtuple("Pair", "h c")


@pytest.mark.parametrize(
    "value, message",
    [
        ({"a": [{1}]}, r"^x\.a\.0: a checkpoint holds .*; got builtins.set"),
        (Pair(1, 2), r"^x: a checkpoint holds .*Pair"),
        ([b"raw"], "builtins.bytes"),
        (lambda: 0, "builtins.function"),
        (1j, "builtins.complex"),
        (np.float32(1), "numpy.float32"),
        (np.array(["a"]), "numpy.ndarray"),
        ({"adj": torch.eye(2).to_sparse()}, r"^x\.adj is a sparse_coo tensor, which safetensors"),
        (torch.empty(2, device="meta"), "^x is a meta tensor"),
        (nn.LazyLinear(2).weight, "^x has no shape yet"),
    ],
)
def test_what_cannot_be_held_is_named(value, message):
    with pytest.raises(TypeError, match=message):
        pack(value, {}, "x")


def test_nothing_is_pickled(tmp_path):
    write(tmp_path / "x", {"a": (torch.ones(2), 1.5)})
    data = (tmp_path / "x").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    assert set(header) == {"__metadata__", "a.0"}
    assert len(data) == 8 + size + 2 * 4, "the header, two float32 numbers, and nothing more"


def test_digest_of_a_file_is_what_write_returns(tmp_path):
    assert write(tmp_path / "x", {"a": torch.ones(3)}) == digest(tmp_path / "x")
