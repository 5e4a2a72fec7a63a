"""What several test files need: layers of every architecture, random states, comparison."""

from __future__ import annotations

import pytest
import torch

import companion
from companion.cells import flat_state, map_state
from companion.run import FORMS

D, H = 3, 4


def forms_of(name):
    """The forms that can run this architecture; None picks one."""
    layer = companion.Recurrence(name, D, H)
    refuses = {f: form.refuses(layer.cell(0), torch.empty(0, D)) for f, form in FORMS.items()}
    return [None, *(f for f, reason in refuses.items() if reason is None)]


every_architecture = pytest.mark.parametrize("name", companion.ARCHITECTURES)
every_form = pytest.mark.parametrize("form", forms_of("rnn"))  # of the plain layers
every_case = pytest.mark.parametrize(
    "name, form", [(name, form) for name in companion.ARCHITECTURES for form in forms_of(name)]
)
directions = pytest.mark.parametrize("bidirectional", [False, True], ids=["one way", "both ways"])


def make(name, seed=0, **options):
    """A float64 layer of two stacked cells (unless told otherwise) with fixed weights."""
    torch.manual_seed(seed)
    options = {"num_layers": 2, "dtype": torch.float64, **options}
    return companion.Recurrence(name, D, H, **options)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def random_state(layer, B):
    """Where random steps lead: not every number is a state, such as a sum of weights below 0."""
    shape = (B, 3, layer.input_size) if layer.batch_first else (3, B, layer.input_size)
    with torch.no_grad():
        _, state = layer(randn(*shape) * 2, form="loop")
    return map_state(torch.clone, state)


def assert_close(a, b, tol=1e-11):
    """Two states or tensors agree in shape and value."""
    for p, q in zip(flat_state(a), flat_state(b), strict=True):
        assert p.shape == q.shape
        torch.testing.assert_close(p, q, rtol=0, atol=tol)


def wave(*tensors):
    """A scalar in which every element of every tensor counts differently."""
    return sum(
        (t * torch.arange(1.0, t.numel() + 1, dtype=t.dtype).cos().view(t.shape)).sum()
        for t in tensors
    )
