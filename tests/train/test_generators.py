"""Random generators: found, kept, put back."""

import random

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, TensorDataset

from companion.reproduce import cpu_generator
from companion.train import CheckpointError
from companion.train.generators import Generators


class Noisy(Dataset):
    def __init__(self):
        self._python, self.numpy = random.Random(1), np.random.default_rng(2)
        self.old = np.random.RandomState(3)

    def __len__(self):
        return 6

    def __getitem__(self, n):
        return self._python.random() + self.numpy.random() + self.old.rand() + torch.rand(())


class Batches(Sampler):
    def __init__(self, generator):
        self.order = RandomSampler(range(6), generator=generator)

    def __iter__(self):
        yield from ([n] for n in self.order)


def draw(loader):
    batches = torch.cat(list(loader)).tolist()
    return batches, random.random(), np.random.rand(), torch.rand(2).tolist()


def test_all_generators_of_a_loader_go_back():
    loader = DataLoader(Noisy(), batch_sampler=Batches(cpu_generator(4)))
    generators = Generators({"train": loader})
    assert sorted(generators.held) == [
        "train.batch_sampler.order.generator",
        "train.dataset._python",
        "train.dataset.numpy",
        "train.dataset.old",
    ]
    before = generators.states()
    first = draw(loader)
    assert draw(loader)[0] != first[0]
    generators.restore(before)
    assert draw(loader) == first


def test_a_generator_in_two_places_is_one_and_others_are_added():
    g, h = cpu_generator(0), cpu_generator(1)
    one = DataLoader(TensorDataset(torch.ones(3)), shuffle=True, generator=g)
    found = Generators({"train": one, "valid": one}, [g, h]).held
    assert list(found.values()) == [g, h]
    assert list(found) == ["train.sampler.generator", "generators[1]"]


def test_lists_and_functions_hold_none():
    assert Generators({"train": [torch.ones(2)], "valid": None, "x": draw}).held == {}
    assert Generators({"x": random.SystemRandom()}).held == {}  # has no state


def test_circles_end():
    class Node:
        pass

    a = Node()
    a.b, a.g = Node(), cpu_generator(0)
    a.b.a = a
    assert list(Generators({"a": a}).held) == ["a.g"]


def test_other_generators_are_an_error():
    states = Generators({"train": DataLoader(Noisy())}).states()
    with pytest.raises(CheckpointError, match=r"hold the generators \[\], in .*_python"):
        Generators({}).restore(states)


def test_data_and_model_draw_from_streams_of_their_own():
    torch.manual_seed(7)
    want, models = torch.rand(3).tolist(), []
    for rank in (0, 1):
        torch.manual_seed(7)
        generators = Generators({})
        generators.separate(rank)
        found = []

        def batches():
            for _ in range(3):
                yield torch.rand(())

        for batch in generators.draws(batches()):
            found.append(batch.item())
            torch.rand(5)  # the model's
        assert found == want
        states = generators.states()
        rest = torch.rand(2).tolist()
        with generators.reading():
            more = torch.rand(2).tolist()
        generators.restore(states)
        assert torch.rand(2).tolist() == rest
        with generators.reading():
            assert torch.rand(2).tolist() == more
        models.append(rest)
    assert models[0] != models[1]


def test_what_is_seen_too_deep_is_found_where_it_is_not():
    class Holder:
        def __init__(self, **attributes):
            self.__dict__.update(attributes)

    noise = Holder(g=cpu_generator(0))
    deep = Holder(a=Holder(b=Holder(c=Holder(d=noise))))
    for loader in (
        Holder(dataset=deep, collate_fn=noise),
        Holder(collate_fn=noise, dataset=deep),
    ):
        assert list(Generators({"train": loader}).held) == ["train.collate_fn.g"]
