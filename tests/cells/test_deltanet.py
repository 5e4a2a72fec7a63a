"""The delta rule against a step of gradient descent, and against a product of transitions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import companion
from companion import DeltaNetCell

from ..helpers import assert_close, randn, random_state, wave

H, B, LENGTHS = 4, 2, (1, 2, 3, 7, 33, 64, 257)


def sigmoid(a):
    return 1 / (1 + torch.exp(-a))


def window(x, past, weight):
    """Σ_j w_{k-j} x_{t-j} and what is past after the last step, the latest first."""
    k, K = weight.shape[1], x.shape[-1]
    steps = [*past.view(len(past), k - 1, K).flip(1).unbind(1), *x.unbind(0)]
    rows = [
        sum(weight[:, k - 1 - j] * steps[t + k - 1 - j] for j in range(k)) for t in range(len(x))
    ]
    return torch.stack(rows), torch.cat(steps[len(steps) - k + 1 :][::-1], -1)


def transcription(cell, x, S, past, heads, expand, gated, negative):
    """One step, one row of the batch and one head at a time."""
    d, e = H // heads, expand * H // heads
    u = x @ cell.weight_ih.T + (0 if cell.bias_ih is None else cell.bias_ih)
    blocks = [2 * H + expand * H, heads, *([heads, expand * H] if gated else [])]
    u, beta, *gates = u.split(blocks, -1)
    u, past = window(u, past, cell.weight_conv)
    q, k, v = (u * sigmoid(u)).split([H, H, expand * H], -1)
    beta = (2 if negative else 1) * sigmoid(beta)
    S = [[S[b].view(heads, d, e)[h] for h in range(heads)] for b in range(B)]
    rows = []
    for t in range(len(x)):
        row = []
        for b in range(B):
            y = []
            for h in range(heads):
                mine, wide = slice(h * d, h * d + d), slice(h * e, h * e + e)
                key = k[t, b, mine] / (k[t, b, mine].square().sum() + 1e-6).sqrt()
                query = q[t, b, mine] / (q[t, b, mine].square().sum() + 1e-6).sqrt() / d**0.5
                step, alpha = beta[t, b, h], 1.0
                if gated:
                    rate = F.softplus(gates[0][t, b, h] + cell.bias_dt[h])
                    alpha = torch.exp(-cell.log_a[h].exp() * rate)
                before = alpha * S[b][h]
                # gradient of ½ ‖Sᵀ k − v‖² at what has faded
                slope = torch.outer(key, before.T @ key - v[t, b, wide])
                S[b][h] = before - step * slope
                read = S[b][h].T @ query
                y.append(read / (read.square().mean() + 1e-5).sqrt() * cell.gain)
            y = torch.cat(y)
            if gated:
                y = y * gates[1][t, b] * sigmoid(gates[1][t, b])
            row.append(y)
        rows.append(torch.stack(row))
    y = torch.stack(rows) @ cell.weight_ho.T
    y = y if cell.bias_ho is None else y + cell.bias_ho
    return y, torch.stack([torch.stack(s).flatten() for s in S]), past


@pytest.mark.parametrize("form", ["loop", "chunk"])
@pytest.mark.parametrize(
    "heads, expand, gated, negative, bias",
    [(1, 1, False, False, False), (2, 2, True, True, True), (2, 1, False, True, True)],
)
def test_it_is_a_step_of_gradient_descent(form, heads, expand, gated, negative, bias):
    for T in LENGTHS[:-2]:
        torch.manual_seed(T)
        layer = companion.DeltaNet(
            3,
            H,
            bias=bias,
            batch_first=False,
            dtype=torch.float64,
            heads=heads,
            expand=expand,
            window=3,
            gated=gated,
            negative_eigenvalues=negative,
        )
        state = [s.requires_grad_() for s in random_state(layer, B)]
        x = randn(T, B, 3).requires_grad_()
        y, final = layer(x, tuple(state), form=form)
        z, *ends = transcription(
            layer.cell(0), x, *(s[0] for s in state), heads, expand, gated, negative
        )
        wanted = [x, *state, *layer.parameters()]
        ours = (y, *(s[0] for s in final), *torch.autograd.grad(wave(y, *final), wanted))
        theirs = (z, *ends, *torch.autograd.grad(wave(z, *ends), wanted))
        for a, b in zip(ours, theirs, strict=True):
            scale = max(1.0, b.detach().abs().max().item())
            assert_close(a / scale, b / scale, 1e-9)


def test_a_transition_has_the_eigenvalues_it_says():
    """Along k it is 1 − β, across it 1: with a sign to change only where β may be doubled."""
    for negative, lowest in ((False, 0.0), (True, -1.0)):
        cell = DeltaNetCell(
            3, 4, heads=1, window=1, dtype=torch.float64, negative_eigenvalues=negative
        )
        with torch.no_grad():
            cell.weight_ih[12:] = 0
            cell.bias_ih[12:] = 40.0  # β as large as it can be
            cell.bias_ih[8:12], cell.weight_ih[8:12] = 0, 0  # v = 0: only the transition
        x = randn(1, 3)
        columns = torch.eye(4, dtype=torch.float64)
        _, (S, _) = cell.step(x, (columns.flatten()[None], cell.initial_state(1)[1]))
        found = torch.linalg.eigvalsh(S.view(4, 4).detach())
        want = torch.tensor([lowest, 1, 1, 1], dtype=torch.float64)
        torch.testing.assert_close(found, want, rtol=0, atol=1e-4)  # ε of the norm of k


def test_it_replaces_what_linear_attention_adds():
    """A key written twice reads its second value; a sum of outer products reads both."""
    k = torch.tensor([0.6, 0.8], dtype=torch.float64).expand(2, 1, 2)
    v = torch.tensor([[[1.0, 5.0]], [[3.0, -2.0]]], dtype=torch.float64)
    from companion.run.chunk import Chunks

    time, S = Chunks([1, 1], torch.device("cpu")), torch.zeros(1, 4, dtype=torch.float64)
    replaced, _ = time.delta(k, k, v, -k, k, S)
    added, _ = time.attend(k, k, v, S)
    assert_close(replaced[1, 0], v[1, 0], 1e-12)
    assert_close(added[1, 0], v[0, 0] + v[1, 0], 1e-12)


def test_without_a_window_the_state_has_no_past():
    layer = companion.DeltaNet(3, 4, window=1)
    assert not any("conv" in name for name, _ in layer.named_parameters())
    y, (S, past) = layer(torch.randn(2, 5, 3))
    assert y.shape == (2, 5, 4) and past.shape == (1, 2, 0)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"heads": 3}, ValueError, "hidden_size: expected a multiple of heads = 3, got 4"),
        ({"expand": 0}, ValueError, "expand: expected at least 1, got 0"),
        ({"window": -1}, ValueError, "window: expected at least 1, got -1"),
        ({"gated": "yes"}, TypeError, "gated: expected True or False, got 'yes'"),
        ({"negative_eigenvalues": 2}, TypeError, "negative_eigenvalues: expected True or False"),
    ],
)
def test_options_are_checked(options, kind, message):
    with pytest.raises(kind, match=message):
        companion.DeltaNet(3, 4, **options)


def test_what_it_prints():
    assert repr(companion.DeltaNet(3, 4, gated=True)) == "DeltaNet(3, 4, gated=True)"
