"""Batches to the device, weighted averages, modes that come back."""

import math
from collections import OrderedDict, UserDict, defaultdict, namedtuple

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from companion.train import to_device
from companion.train.batches import Average, Buffers, modes, set_tensors

Pair = namedtuple("Pair", "x y")
one = torch.ones(())


def test_every_nesting_is_moved():
    x = torch.zeros(2)
    packed = pack_padded_sequence(torch.zeros(2, 3, 1), torch.tensor([3, 2]), batch_first=True)
    batch = {
        "pair": Pair(x, [x, (x, None)]),
        "ordered": OrderedDict(a=x),
        "packed": packed,
        "size": x.shape,
        "names": ["Li"],
        "n": 3,
    }
    moved = to_device(batch, "meta")
    assert type(moved["pair"]) is Pair and moved["pair"].x.device.type == "meta"
    assert moved["pair"].y[1][0].is_meta and moved["pair"].y[1][1] is None
    assert moved["ordered"]["a"].is_meta
    assert isinstance(moved["packed"], PackedSequence) and moved["packed"].data.is_meta
    assert moved["size"] == x.shape and moved["names"] == ["Li"] and moved["n"] == 3
    assert not x.is_meta and not packed.data.is_meta  # the given batch stays


def test_average_is_over_tokens_not_batches():
    mean = Average()
    mean.add(1.0, 3, {"accuracy": 1.0})
    mean.add(5.0, 1, {"accuracy": 0.0})
    assert mean.loss == 2.0 and mean.metrics == {"accuracy": 0.75}  # (3·1 + 1·5)/4, 3/4


def test_average_of_nothing_is_nan():
    assert math.isnan(Average().loss) and Average().metrics == {}


def test_metrics_must_stay_the_same():
    mean = Average()
    mean.add(1.0, 1, {"accuracy": 1.0})
    with pytest.raises(ValueError, match=r"metrics \['f1'\], in earlier batches \['accuracy'\]"):
        mean.add(1.0, 1, {"f1": 1.0})


@pytest.mark.parametrize("training", [True, False])
def test_modes_come_back_after_an_error(training):
    net = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    with pytest.raises(KeyError), modes(net, training=training):
        assert [m.training for m in net.modules()] == [training] * 3
        raise KeyError
    assert [m.training for m in net.modules()] == [True, True, False]


def test_mappings_keep_their_type():
    x = torch.zeros(1)
    for batch in (OrderedDict(b=x, a=x), defaultdict(list, a=x), UserDict(a=x)):
        moved = to_device(batch, "meta")
        assert type(moved) is type(batch) and list(moved) == list(batch)
        assert all(value.is_meta for value in moved.values())
        assert not batch["a"].is_meta
    assert to_device(defaultdict(list), "meta")["missing"] == []


def test_buffers_of_a_model_without_any():
    Buffers(nn.Linear(2, 2)).restore()
    lazy = nn.LazyBatchNorm1d()
    Buffers(lazy).restore()


class Holding(nn.Module):
    """A module with these buffers."""

    def __init__(self, **buffers):
        super().__init__()
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)


def test_buffers_that_repeat_their_memory_come_back():
    net = Holding(mask=torch.ones(1, 3).expand(4, 3))
    before = Buffers(net)
    net.mask = torch.zeros(4, 3)
    before.restore()
    assert torch.equal(net.mask, torch.ones(4, 3))


def test_buffers_that_were_none_or_not_there_are_so_again():
    net = Holding(h=None)
    before = Buffers(net)
    net.h = torch.full((2,), math.nan)
    net.register_buffer("count", torch.ones(()))
    before.restore()
    assert dict(net._buffers) == {"h": None}


def test_a_lazy_buffer_that_got_its_shape_is_named():
    net = nn.LazyBatchNorm1d()
    before = Buffers(net)
    net(torch.full((4, 2), math.nan))
    with pytest.raises(
        RuntimeError, match="lazy buffer running_mean of a BatchNorm1d .*one batch"
    ):
        before.restore()


def test_tensors_are_set_however_they_are_now():
    tied = torch.zeros(2)
    net = nn.ModuleDict({"a": Holding(x=tied, y=None), "b": Holding(x=tied, z=torch.ones(3))})
    net["a"].w = nn.Parameter(torch.zeros(2))
    scale = torch.zeros(())
    values = {"a.x": torch.ones(2), "a.y": torch.ones(3), "a.w": torch.ones(2), "scale": 2 * one}
    set_tensors(net, values, {"scale": scale})
    assert net["a"].x is net["b"].x is tied and tied.tolist() == [1, 1]
    assert net["a"].y.tolist() == [1, 1, 1] and net["a"].y is not values["a.y"]
    assert net["b"].z is None and net["a"].w.tolist() == [1, 1] and scale == 2
    set_tensors(net, {**values, "a.x": torch.ones(5)})  # of another shape
    assert net["a"].x.shape == (5,) and net["a"].x is net["b"].x
