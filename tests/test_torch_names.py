"""Drop-in layers: whatever torch.nn does, from the same seed, weights and arguments."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

import companion

from .helpers import wave

D, H, B, T = 4, 5, 3, 6
OPTIONS = [
    {
        "num_layers": layers,
        "bidirectional": both,
        "bias": bias,
        "batch_first": batch_first,
        "nonlinearity": phi,
        "dropout": 0.4 if layers > 1 and bias else 0.0,
    }
    for layers, both, bias, batch_first, phi in itertools.product(
        [1, 2, 3], [False, True], [True, False], [False, True], ["tanh", "relu"]
    )
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)
precisions = pytest.mark.parametrize(
    "dtype, tol", [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=["float64", "float32"]
)


GATED = [
    (
        "LSTM" if kind != "GRU" else "GRU",
        {k: v for k, v in options.items() if k != "nonlinearity"}
        | ({"proj_size": 3} if kind == "LSTMP" else {}),
    )
    for kind in ("LSTM", "LSTMP", "GRU")
    for options in OPTIONS
    if options["nonlinearity"] == "tanh"
]


def pair(options, dtype=torch.float64, name="RNN"):
    """torch's layer and ours, each made from the same seed."""
    layers = []
    for module in (torch.nn, companion):
        torch.manual_seed(0)
        layers.append(getattr(module, name)(D, H, dtype=dtype, **options))
    return layers


def inputs(options, dtype, kind):
    torch.manual_seed(1)
    shape = (B, T, D) if options["batch_first"] else (T, B, D)
    x = torch.randn(shape, dtype=dtype)
    lead = options["num_layers"] * (1 + options["bidirectional"])
    hx = torch.randn(lead, B, H, dtype=dtype).requires_grad_()
    if kind == "unbatched":
        x = x.select(0 if options["batch_first"] else 1, 0)
        hx = hx[:, 0].detach().requires_grad_()
    x.requires_grad_()
    if kind == "no state":
        return x, x, None
    if kind == "packed":
        given = pack_padded_sequence(
            x, torch.tensor([4, 6, 2]), options["batch_first"], enforce_sorted=False
        )
        return x, given, hx
    return x, x, hx


def assert_same(a, b, tol):
    scale = max([1.0, *a.detach().abs().flatten().tolist()])
    torch.testing.assert_close(a, b, rtol=0, atol=tol * scale)


@every_option
@precisions
@pytest.mark.parametrize("kind", ["padded", "no state", "unbatched", "packed"])
def test_outputs_and_gradients_equal_torch(options, dtype, tol, kind):
    found = []
    for layer in pair(options, dtype):
        x, given, hx = inputs(options, dtype, kind)
        torch.manual_seed(2)  # the same dropout masks
        y, h_n = layer(given, hx)
        if kind == "packed":
            assert torch.equal(y.batch_sizes, given.batch_sizes)
            assert torch.equal(y.sorted_indices, given.sorted_indices)
            y = pad_packed_sequence(y, options["batch_first"])[0]
        wanted = [x, *([] if hx is None else [hx]), *layer.parameters()]
        found.append((y, h_n, *torch.autograd.grad(wave(y, h_n), wanted)))
    for a, b in zip(*found, strict=True):
        assert_same(a, b, tol)


@pytest.mark.parametrize("name, options", GATED, ids=str)
@pytest.mark.parametrize("kind", ["padded", "packed", "lengths", "unbatched"])
def test_gated_layers_equal_torch(name, options, kind):
    """Outputs, states and all gradients, from the same seed; float64, 1e-10."""
    found = []
    for layer in pair(options, name=name):
        torch.manual_seed(1)
        x = torch.randn((B, T, D) if options["batch_first"] else (T, B, D)).double()
        state = companion.cells.map_state(
            torch.randn_like, pair(options, name=name)[1].initial_state(B)
        )
        lengths, given, more = torch.tensor([4, 6, 2]), x, {}
        if kind == "unbatched":
            x = given = x.select(0 if options["batch_first"] else 1, 0)
            state = companion.cells.map_state(lambda s: s[:, 0], state)
        x.requires_grad_()
        if kind == "lengths" and type(layer).__module__.startswith("companion"):
            more = {"lengths": lengths}
        elif kind in ("packed", "lengths"):
            given = pack_padded_sequence(x, lengths, options["batch_first"], enforce_sorted=False)
        torch.manual_seed(2)
        if options["dropout"] and kind != "padded":
            layer.eval()  # the masks of packed and of padded rows are drawn in different order
        y, final = layer(given, state, **more)
        if not isinstance(y, torch.Tensor):
            y = pad_packed_sequence(y, options["batch_first"])[0]
        final = companion.cells.flat_state(final)
        loss = wave(y, *final)
        found.append((y, *final, *torch.autograd.grad(loss, [x, *layer.parameters()])))
    for a, b in zip(*found, strict=True):
        assert_same(a, b, 1e-10)


@pytest.mark.parametrize("name, options", GATED, ids=str)
def test_gated_parameters_and_state_dict(name, options):
    theirs, ours = pair(options, name=name)
    assert all(map(torch.equal, theirs.parameters(), ours.parameters()))
    assert list(theirs.state_dict()) == list(ours.state_dict()) and repr(theirs) == repr(ours)
    ours.load_state_dict({k: torch.randn_like(w) for k, w in theirs.state_dict().items()})
    theirs.load_state_dict(ours.state_dict(), strict=True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2, D), (D,), (0, D)])
@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell"])
def test_gated_cells_equal_torch(name, bias, shape):
    found = []
    for module in (torch.nn, companion):
        torch.manual_seed(0)
        cell = getattr(module, name)(D, H, bias, dtype=torch.float64)
        x = torch.randn(shape, dtype=torch.float64)
        h = torch.randn(*shape[:-1], H, dtype=torch.float64)
        state = companion.cells.flat_state(cell(x, (h, 2 * h) if name == "LSTMCell" else h))
        grads = torch.autograd.grad(wave(*state), list(cell.parameters()))
        found.append((*state, *grads, *companion.cells.flat_state(cell(x))))
    for a, b in zip(*found, strict=True):
        assert_same(a, b, 1e-12)


@every_option
def test_parameters_and_state_dict(options):
    theirs, ours = pair(options)
    assert [n for n, _ in theirs.named_parameters()] == [n for n, _ in ours.named_parameters()]
    assert all(map(torch.equal, theirs.parameters(), ours.parameters()))  # same seed, same draw
    torch.manual_seed(5)
    ours.reset_parameters()
    torch.manual_seed(5)
    theirs.reset_parameters()
    assert all(map(torch.equal, theirs.parameters(), ours.parameters()))
    for a, b in [(theirs, ours), (ours, theirs)]:
        state = {k: torch.randn_like(w) for k, w in a.state_dict().items()}
        b.load_state_dict(state, strict=True)
        assert list(b.state_dict()) == list(a.state_dict())
    shapes = [[w.shape for w in ws] for ws in theirs.all_weights]
    assert [[w.shape for w in ws] for ws in ours.all_weights] == shapes


@pytest.mark.parametrize("phi", ["tanh", "relu"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2, D), (D,), (0, D)])
@pytest.mark.parametrize("given", [True, False])
def test_cell_equals_torch(phi, bias, shape, given):
    found = []
    for module in (torch.nn, companion):
        torch.manual_seed(0)
        cell = module.RNNCell(D, H, bias, phi, dtype=torch.float64)
        x = torch.randn(shape, dtype=torch.float64).requires_grad_()
        hx = torch.randn(*shape[:-1], H, dtype=torch.float64) if given else None
        h = cell(x, hx)
        found.append((h, *torch.autograd.grad(wave(h), [x, *cell.parameters()])))
        state = cell.state_dict()
    for a, b in zip(*found, strict=True):
        assert_same(a, b, 1e-12)
    torch.nn.RNNCell(D, H, bias, phi, dtype=torch.float64).load_state_dict(state)


def test_keywords_positions_and_repr_are_torch_s():
    x, hx = torch.randn(T, B, D), torch.randn(2, B, H)
    theirs = torch.nn.RNN(D, H, 2, "relu", True, False, 0.1, False)
    ours = companion.RNN(D, H, 2, "relu", True, False, 0.1, False)
    ours.load_state_dict(theirs.state_dict())
    theirs.eval()
    ours.eval()
    ours.flatten_parameters()
    assert_same(ours(input=x, hx=hx)[0], theirs(input=x, hx=hx)[0], 1e-5)
    assert repr(ours) == repr(theirs)
    assert repr(companion.RNN(D, H)) == repr(torch.nn.RNN(D, H))
    for options in ({}, {"bias": False}, {"nonlinearity": "relu"}):
        assert repr(companion.RNNCell(D, H, **options)) == repr(torch.nn.RNNCell(D, H, **options))


def test_sorted_packing_and_pack_sequence():
    theirs, ours = pair({"bidirectional": True})
    sequences = [torch.randn(n, D, dtype=torch.float64) for n in (6, 3, 1)]
    packed = pack_sequence(sequences)
    assert packed.sorted_indices is None
    (a, h_a), (b, h_b) = theirs(packed), ours(packed)
    assert_same(a.data, b.data, 1e-12)
    assert_same(h_a, h_b, 1e-12)


def test_lengths_are_packing_and_padding_again():
    theirs, ours = pair({"bidirectional": True, "num_layers": 2, "batch_first": True})
    x, lengths = torch.randn(B, T, D, dtype=torch.float64), torch.tensor([4, 6, 2])
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    y, h_n = theirs(packed)
    y, _ = pad_packed_sequence(y, batch_first=True)
    z, h_z = ours(x, lengths=lengths)
    assert_same(y, z, 1e-12)
    assert_same(h_n, h_z, 1e-12)


def test_training_a_copy_of_torch_s_layer_takes_the_same_path():
    theirs, ours = pair({"batch_first": True})
    x, target = torch.randn(B, T, D).double(), torch.randn(B, T, H).double()
    for layer in (theirs, ours):
        optimizer = torch.optim.Adam(layer.parameters(), 1e-2)
        for _ in range(20):
            optimizer.zero_grad()
            (layer(x)[0] - target).square().mean().backward()
            optimizer.step()
    for a, b in zip(theirs.parameters(), ours.parameters(), strict=True):
        assert_same(a, b, 1e-10)


@pytest.mark.parametrize("choice", ["orthogonal", "identity", companion.spectral_radius(0.7)])
def test_recurrent_init_sets_every_recurrent_weight_and_no_other(choice):
    torch.manual_seed(0)
    rnn = companion.RNN(D, H, 2, bidirectional=True, recurrent_init=choice)
    bound = H**-0.5
    for name, w in rnn.named_parameters():
        w = w.detach()
        if "weight_hh" not in name:
            assert w.abs().max() <= bound
        elif choice == "orthogonal":
            assert_same(w @ w.t(), torch.eye(H), 1e-5)
        elif choice == "identity":
            assert torch.equal(w, torch.eye(H))
        else:
            assert torch.linalg.eigvals(w).abs().max().item() == pytest.approx(0.7, abs=1e-5)
    copy.deepcopy(rnn).reset_parameters()


def test_skip_init_and_meta_construction():
    for choice in (None, "orthogonal", "identity", companion.spectral_radius(0.7)):
        rnn = torch.nn.utils.skip_init(companion.RNN, D, H, recurrent_init=choice)
        rnn.reset_parameters()
        assert all(w.isfinite().all() for w in rnn.parameters())


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"nonlinearity": "gelu"}, ValueError, "nonlinearity: expected one of"),
        ({"hidden_size": 0}, ValueError, "hidden_size: expected at least 1, got 0"),
        ({"hidden_size": 2.5}, TypeError, "hidden_size: expected an int, got float"),
        ({"hidden_size": True}, TypeError, "hidden_size: expected an int, got bool"),
        ({"num_layers": 0}, ValueError, "num_layers: expected at least 1"),
        ({"dropout": 1.5}, ValueError, "dropout: expected a probability"),
        ({"dropout": float("nan")}, ValueError, "dropout: expected a probability"),
        ({"dropout": "0.5"}, TypeError, "dropout: expected a number"),
        ({"recurrent_init": "xavier"}, ValueError, "recurrent_init: expected one of"),
        ({"recurrent_init": 0.9}, TypeError, r"write recurrent_init=spectral_radius\(0.9\)"),
    ],
)
def test_bad_options_are_named(options, kind, message):
    with pytest.raises(kind, match=message):
        companion.RNN(**{"input_size": D, "hidden_size": H, **options})


def test_packed_input_takes_no_lengths_or_reset_and_is_checked():
    rnn = companion.RNN(D, H)
    packed = pack_sequence([torch.randn(3, D)])
    with pytest.raises(ValueError, match="lengths: not with a PackedSequence"):
        rnn(packed, lengths=[3])
    with pytest.raises(ValueError, match="reset: not with a PackedSequence"):
        rnn(packed, reset=torch.zeros(3, 1, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"input.data: expected \(N, 4\) \(input_size\)"):
        rnn(pack_sequence([torch.randn(3, 2)]))
    with pytest.raises(ValueError, match="hx: expected shape"):
        rnn(packed, torch.zeros(1, 2, H))


@pytest.mark.parametrize("radius", [-1.0, float("nan"), float("inf")])
def test_spectral_radius_refuses(radius):
    with pytest.raises(ValueError, match="radius: expected a finite number"):
        companion.spectral_radius(radius)
