"""The shape ledger."""

import numpy as np
import pytest
import torch

from companion.look import shapes


def test_letters_bind_once_and_stay():
    ledger = shapes(B=3)
    x = torch.zeros(3, 5, 4)
    assert ledger.check("x", x, "B T D") is x
    assert ledger.sizes == {"B": 3, "T": 5, "D": 4}
    with pytest.raises(ValueError, match=r"^y: expected \(B, T\) = \(3, 5\), got \(3, 6\)$"):
        ledger.check("y", torch.zeros(3, 6), "B T")


def test_failed_check_binds_and_records_nothing():
    ledger = shapes(B=3)
    with pytest.raises(ValueError):
        ledger.check("x", torch.zeros(2, 7), "B T")
    assert ledger.sizes == {"B": 3} and ledger.rows == []


@pytest.mark.parametrize(
    "shape, letters",
    [
        ((), ""),
        ((0, 4), "Z D"),
        ((1, 3, 6), "1 B H"),
        ((4, 4), "D D"),
        ((12, 4), "3*D D"),
        ((8,), "2*D"),
        ((3, 2, 16), "B, 2, D*D"),
        ((2, 5), "B-1 D+1"),
        ((6,), "N"),
        ((24, 6), "4*H H"),  # H is bound by its own place, then the product is checked
        ((13,), "2*D+B+2"),
        ((7,), "h_size2"),
    ],
)
@pytest.mark.parametrize("make", [torch.zeros, np.zeros])
def test_good(shape, letters, make):
    shapes(B=3, D=4).check("x", make(shape), letters)


@pytest.mark.parametrize(
    "shape, letters, message",
    [
        ((3,), "", r"expected \(\) = \(\), got \(3,\)"),
        ((), "B", r"expected \(B,\) = \(3,\), got \(\)"),
        ((3, 5, 4), "B D", r"expected \(B, D\) = \(3, 4\), got \(3, 5, 4\)"),
        ((3, 5), "B T D", r"expected \(B, T, D\) = \(3, T, 4\), got \(3, 5\)"),
        ((4, 5), "Z Z", r"expected \(Z, Z\) = \(4, 4\), got \(4, 5\)"),
        ((2, 3), "1 B", r"expected \(1, B\)"),
        ((9,), "2*D", r"= \(8,\), got \(9,\)"),
        ((8,), "2*K", "letter K in '2.K' has no size yet"),
        ((8,), "2D", "cannot read '2D'"),
        ((8,), "*D", "cannot read"),
        ((8,), "…", "cannot read"),
        ((8,), "D/2", "cannot read"),
    ],
)
def test_bad(shape, letters, message):
    with pytest.raises(ValueError, match="^x: .*" + message):
        shapes(B=3, D=4).check("x", torch.zeros(shape), letters)


def test_no_tensor():
    with pytest.raises(TypeError, match="x: expected a tensor, got list"):
        shapes().check("x", [1, 2], "T")


@pytest.mark.parametrize("bad, kind", [(1.0, TypeError), (True, TypeError), (-1, ValueError)])
def test_bad_sizes(bad, kind):
    with pytest.raises(kind, match="^B must be"):
        shapes(B=bad)


def test_context_prints_its_table_unless_it_failed(capsys):
    with shapes() as ledger:
        ledger.check("x", torch.zeros(2, 5), "B T")
        ledger.check("loss", torch.zeros(()), "")
    assert capsys.readouterr().out == "x     (B, T)  = (2, 5)\nloss  ()      = ()\n"
    with pytest.raises(ValueError), shapes() as ledger:
        ledger.check("x", torch.zeros(2, 5), "B T")
        ledger.check("x", torch.zeros(2, 6), "B T")
    assert capsys.readouterr().out == ""


def test_repr_of_an_empty_ledger():
    assert repr(shapes(B=1)) == "ShapeLedger({'B': 1})" and str(shapes()) == ""


@pytest.mark.parametrize("letters", [5, None, ["B", "T"], ("B",), b"B T"])
def test_letters_that_are_no_text(letters):
    ledger = shapes(B=2)
    with pytest.raises(TypeError, match="^x: letters must be a str"):
        ledger.check("x", torch.zeros(2, 3), letters)
    assert ledger.rows == []


@pytest.mark.parametrize("name", ["Δ", "a b", "2", "", "_x", "a-b"])
def test_a_dimension_that_no_check_could_name(name):
    with pytest.raises(ValueError, match="a dimension is named by a letter"):
        shapes(**{name: 2})
