"""Speech recognizers: frames, lengths and strides, and learning without an alignment."""

from __future__ import annotations

import math

import pytest
import torch

from companion.models import SpeechRecognizer, ctc_greedy, ctc_loss, speech_objective
from companion.train import Trainer

FRONTS = {
    "none": [],
    "one": [(6, 5, 2)],
    "two": [(6, 3, 1), (5, 5, 3)],
    "even stride": [(4, 1, 4)],
}
every_front = pytest.mark.parametrize("convolutions", FRONTS.values(), ids=FRONTS)


@every_front
@pytest.mark.parametrize("junk", [math.nan, 9.0])
def test_padding_is_never_read_and_lengths_are_mapped(convolutions, junk):
    torch.manual_seed(0)
    model = SpeechRecognizer(3, 4, 5, convolutions=convolutions, dtype=torch.float64)
    lengths = [13, 6, 0, 1, 7]
    frames = torch.randn(5, 13, 3, dtype=torch.float64)
    for row, n in zip(frames, lengths, strict=True):
        row[n:] = junk
    log_probs, count = model(frames, lengths)
    assert count.tolist() == model.out_lengths(torch.tensor(lengths)).tolist()
    assert log_probs.shape == (5, count[0], 5) and log_probs.isfinite().all()
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones_like(log_probs[..., 0]))
    for b, n in enumerate(lengths):
        alone, m = model(frames[b : b + 1, :n])
        assert m.item() == alone.shape[1] == count[b]  # what a convolution gives for n frames
        torch.testing.assert_close(log_probs[b, :m], alone[0])
    log_probs.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_lengths_are_those_of_torch_convolutions():
    model = SpeechRecognizer(1, 2, 3, convolutions=[(1, 7, 3), (1, 3, 2)])
    for n in range(1, 40):
        x = torch.zeros(1, 1, n)
        for convolution in model.convolutions:
            x = convolution(x)
        assert model.out_lengths(torch.tensor([n])).item() == x.shape[2]


def test_network_written_out():
    torch.manual_seed(0)
    model = SpeechRecognizer(3, 4, 5, "gru", convolutions=[(6, 3, 2)], dtype=torch.float64)
    reference = torch.nn.GRU(6, 5, batch_first=True, bidirectional=True).double()
    reference.load_state_dict(model.recurrence.state_dict())
    frames = torch.randn(2, 7, 3, dtype=torch.float64)
    convolution = model.convolutions[0]
    padded = torch.nn.functional.pad(frames, (0, 0, 1, 1))
    rows = [
        torch.einsum("ock,bkc->bo", convolution.weight, padded[:, t : t + 3]) + convolution.bias
        for t in (0, 2, 4, 6)
    ]
    y, _ = reference(torch.stack(rows, 1).relu())
    torch.testing.assert_close(model(frames)[0], model.output(y).log_softmax(-1))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_one_direction_does_not_hear_the_future(bidirectional):
    torch.manual_seed(0)
    model = SpeechRecognizer(3, 4, 5, bidirectional=bidirectional, dtype=torch.float64)
    frames = torch.randn(1, 8, 3, dtype=torch.float64)
    other = frames.clone()
    other[:, 5:] = 1
    same = torch.equal(model(frames)[0][:, :5], model(other)[0][:, :5])
    assert same is not bidirectional


def test_objective_is_the_mean_over_recordings():
    torch.manual_seed(0)
    model, frames = SpeechRecognizer(3, 4, 5), torch.randn(3, 8, 3)
    targets, lengths = [[1, 1], [], [4, 2, 3]], [8, 3, 5]
    loss, rows = speech_objective(model, (frames, lengths, targets))
    log_probs, count = model(frames, lengths)
    each = [
        ctc_loss(log_probs[b : b + 1, : count[b]], targets[b : b + 1], reduction="sum")
        for b in range(3)
    ]
    torch.testing.assert_close(loss, sum(each) / 3)
    assert rows == 3


def test_objective_in_half_precision_and_of_no_recording():
    torch.manual_seed(0)
    model = SpeechRecognizer(3, 4, 5, dtype=torch.bfloat16)
    frames = torch.randn(2, 8, 3, dtype=torch.bfloat16)
    loss, _ = speech_objective(model, (frames, [8, 5], [[1], [2, 2]]))
    loss.backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in model.parameters())
    loss, rows = speech_objective(model, (frames[:0], [], []))
    assert (loss.item(), rows) == (0, 0)


def test_learns_without_an_alignment():
    """Three labels, each a frame or several of its own; where they stand is never said."""
    torch.manual_seed(0)
    frames, lengths, targets = torch.zeros(32, 12, 3), [], []
    for row in frames:
        labels = torch.randint(3, (int(torch.randint(1, 4, ())),)).tolist()
        said = [k for label in labels for k in [label] * int(torch.randint(1, 3, ())) + [None]]
        for t, k in enumerate(said):
            if k is not None:
                row[t, k] = 1
        lengths.append(len(said))
        targets.append([label + 1 for label in labels])
    model = SpeechRecognizer(3, 3, 16, "gru")
    adam = torch.optim.Adam(model.parameters(), lr=2e-2)
    trainer = Trainer(model, speech_objective, adam, clip_norm=5.0, progress=False)
    trainer.fit([(frames, lengths, targets)], epochs=80)
    found = ctc_greedy(*model(frames, lengths))
    assert sum(a == b for a, b in zip(found, targets, strict=True)) >= 30


def test_errors_name_the_argument():
    model, frames = SpeechRecognizer(3, 4, 5), torch.zeros(2, 8, 3)
    cases = [
        (lambda: SpeechRecognizer(3, 0), ValueError, "labels: expected at least 1, got 0"),
        (
            lambda: SpeechRecognizer(3, 4, convolutions=[(8, 4, 2)]),
            ValueError,
            r"convolutions\[0\]: kernel size: expected an odd number, got 4",
        ),
        (
            lambda: SpeechRecognizer(3, 4, convolutions=[(8, 3, 0)]),
            ValueError,
            r"convolutions\[0\]: stride: expected at least 1, got 0",
        ),
        (
            lambda: SpeechRecognizer(3, 4, convolutions=[8, 3]),
            ValueError,
            r"convolutions\[0\]: expected \(channels, kernel size, stride\), got 8",
        ),
        (
            lambda: SpeechRecognizer(3, 4, convolutions=5),
            TypeError,
            r"^convolutions: expected a sequence of .*got int \(5\)",
        ),
        (lambda: model.out_lengths([8]), TypeError, "^lengths: .*of integers, got list"),
        (lambda: model.out_lengths(torch.ones(1)), TypeError, "^lengths: .*got torch.float32"),
        (lambda: model(frames[0]), ValueError, r"frames: expected shape \(B, T, 3\)"),
        (lambda: model(frames[..., :2]), ValueError, r"frames: expected shape \(B, T, 3\)"),
        (lambda: model(frames.double()), ValueError, "frames: expected dtype torch.float32"),
        (lambda: model(frames, [9, 1]), ValueError, "lengths: expected values from 0 to 8"),
        (lambda: model(frames, [8]), ValueError, r"lengths: expected shape \(2,\)"),
        (
            lambda: speech_objective(model, (frames, [8, 1], [[1], [2, 3]])),
            ValueError,
            r"targets\[1\]: expected at least 2 frames \(2 labels\), got 1",
        ),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
