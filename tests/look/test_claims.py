"""The forms of `claim`, and that each can fail."""

import math

import numpy as np
import pytest
import torch

from companion.look import claim


@pytest.mark.parametrize(
    "args, kwargs, line",
    [
        ((21, True), {"what": "shape of W_hh"}, "[21] shape of W_hh: holds"),
        ((11, 10, 10, 0), {"what": "parameters"}, "[11] parameters = 10 ± 0"),
        (("surnames", 0.81), {"at_least": 0.7, "what": "accuracy"}, "[surnames] accuracy ≥ 0.7"),
        ((26, 0.0123), {"at_most": 0.05}, "[26] ≤ 0.05"),
        ((18, 3e-8, 0, 1e-7), {}, "[18] = 0 ± 1e-07"),
        ((1, 1234567, 1234567, 0), {}, "[1] = 1234567 ± 0"),
        ((1, 66.02e6, 66.02e6, 0.0), {}, "[1] = 66020000 ± 0"),
        ((1, 2, 2, 0), {"what": " two\n lines "}, "[1] two lines = 2 ± 0"),
        ((1, np.bool_(True)), {}, "[1]: holds"),
        ((1, torch.tensor(True)), {}, "[1]: holds"),
        ((1, torch.tensor([True, True])), {}, "[1]: holds"),
        ((1, np.array([[True], [True]])), {}, "[1]: holds"),
        ((1, np.float32(0.5), np.float64(0.5), 0), {}, "[1] = 0.5 ± 0"),
        ((1, torch.tensor(3), 3, 0), {}, "[1] = 3 ± 0"),
        ((1, torch.tensor([[2.5]], requires_grad=True), 2.5, 0), {}, "[1] = 2.5 ± 0"),
        ((1, torch.tensor(0.5, dtype=torch.bfloat16), 0.5, 0), {}, "[1] = 0.5 ± 0"),
        ((196, 5), {"at_least": 5}, "[196] ≥ 5"),
        ((196, 5), {"at_most": 5}, "[196] ≤ 5"),
        ((1, -3.0), {"at_most": -2}, "[1] ≤ -2"),
        # 1.1 - 1.0 is 0.1 on paper and 0.10000000000000009 in float64
        ((1, 1.1, 1.0, 0.1), {}, "[1] = 1 ± 0.1"),
        ((1, 0.3, 0.2, 0.1), {}, "[1] = 0.2 ± 0.1"),
        ((1, 100.3, 100.2, 0.1), {}, "[1] = 100.2 ± 0.1"),
        ((1, -1.1, -1.0, 0.1), {}, "[1] = -1 ± 0.1"),
        ((1, 10**400), {"at_least": 1}, "[1] ≥ 1"),
    ],
)
def test_what_holds_is_printed_as_stated(capsys, args, kwargs, line):
    assert claim(*args, **kwargs) is None
    assert capsys.readouterr().out == line + "\n"


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((21, False), {"what": "shape"}, r"\[21\] shape: stated to hold, measured False"),
        ((1, torch.tensor([True, False])), {}, "measured False"),
        ((1, 10.2, 10, 0.1), {"what": "n"}, r"\[1\] n: stated 10 ± 0.1, measured 10.2"),
        ((1, 9.8, 10, 0.1), {}, "stated 10 ± 0.1, measured 9.8"),
        ((1, 0.69), {"at_least": 0.7}, "stated ≥ 0.7, measured 0.69"),
        ((1, 0.71), {"at_most": 0.7}, "stated ≤ 0.7, measured 0.71"),
        ((1, math.nan, 0, 1e9), {}, "measured nan"),
        ((1, math.inf), {"at_least": 0}, "measured inf"),
        ((1, -math.inf), {"at_most": 0}, "measured -inf"),
        ((1, math.nan), {"at_most": 0}, "measured nan"),
        ((1, torch.tensor(math.nan)), {"at_least": 0}, "measured nan"),
        ((1, 1.1 + 1e-12, 1.0, 0.1), {}, "measured 1.1"),
        ((1, 0.1 + 0.2, 0.3, 0), {}, "measured 0.3000"),  # exact means exact
        ((1, 2**53 + 2, 2**53, 1), {}, str(2**53 + 2)),
        ((1, 10**400, 1.0, 0.1), {}, "measured 1000"),
        ((1, 2**53 + 1, 2**53, 0), {}, str(2**53 + 1)),  # integers are not rounded to floats
    ],
)
def test_what_does_not_hold_raises_and_prints_nothing(capsys, args, kwargs, message):
    with pytest.raises(AssertionError, match=message):
        claim(*args, **kwargs)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((1, 0.5), {}, "give stated and tol"),
        ((1, 1), {}, "give stated and tol"),
        ((1, 0.5, 0.5), {}, "stated needs tol"),
        ((1, 0.5), {"tol": 0.1}, "tol needs stated"),
        ((1, 0.5), {"tol": 0.1, "at_least": 0}, "tol needs stated"),
        ((1, 0.5, 0.5, 0), {"at_least": 0}, "stated and at_least exclude"),
        ((1, 0.5), {"at_least": 0, "at_most": 1}, "at_least and at_most exclude"),
        ((1, True, 1, 0), {}, "is a bool; stated needs a number"),
        ((1, True), {"at_least": 1}, "at_least needs a number"),
        ((1, torch.zeros(2), 0, 1), {}, r"shape \(2,\); reduce it first"),
        ((1, np.zeros((2, 2))), {"at_most": 1}, r"shape \(2, 2\); reduce it first"),
        ((1, torch.zeros(0, dtype=torch.bool)), {}, "no element"),
        ((1, "0.5", 0.5, 0), {}, "must be a number or a bool, got str"),
        ((1, None), {}, "got NoneType"),
        ((1, [True]), {}, "got list"),
        ((1, torch.tensor(1j), 1, 0), {}, "must be real"),
        ((1.0, True), {}, "id must be"),
        ((True, True), {}, "id must be"),
        ((1, True), {"what": 3}, "what must be a str"),
    ],
)
def test_wrong_combinations_are_type_errors(args, kwargs, message):
    with pytest.raises(TypeError, match=message):
        claim(*args, **kwargs)


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((0, True), {}, "1 ... 196, got 0"),
        ((197, True), {}, "got 197"),
        (("", True), {}, "id must be one line"),
        (("a\nb", True), {}, "id must be one line"),
        (("[a]", True), {}, "id must be one line"),
        ((1, 0.5, 0.5, -0.1), {}, "tol must be >= 0"),
        ((1, 0.5, math.nan, 1), {}, "stated must be a finite"),
        ((1, 0.5, 0.5, math.inf), {}, "tol must be a finite"),
        ((1, 0.5), {"at_least": -math.inf}, "at_least must be a finite"),
    ],
)
def test_unusable_values(args, kwargs, message):
    with pytest.raises(ValueError, match=message):
        claim(*args, **kwargs)
