"""The two series of statsmodels, against what their sources say of them."""

import sys

import numpy as np
import pytest
import torch

from companion.data import CATALOGUE, load


def test_co2():
    """Weekly from 1958-03-29 (316.1 ppm) to the end of 2001, with 59 gaps."""
    time, values, unit = load("co2")
    assert values.shape == (2284, 1) and values.dtype == torch.float64 and unit == "ppm"
    assert int(values.isnan().sum()) == 59 and values[0].item() == pytest.approx(316.1)
    assert str(time[0]) == "1958-03-29" and str(time[-1]) == "2001-12-29"
    assert set(np.diff(time).astype(int)) == {7}


def test_sunspots():
    """The Dalton minimum: no spot in 1810; the highest year of the list is 1957, with 190.2."""
    time, values, _ = load("sunspots")
    assert values.shape == (309, 1) and not values.isnan().any()
    years = time.astype("datetime64[Y]").astype(int) + 1970
    assert years.tolist() == list(range(1700, 2009))
    assert values[years.tolist().index(1810)] == 0
    assert years[values.argmax()] == 1957 and values.max().item() == pytest.approx(190.2)


@pytest.mark.parametrize("name", ["co2", "sunspots"])
def test_without_statsmodels(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels", None)
    monkeypatch.setitem(sys.modules, "statsmodels.datasets", None)
    with pytest.raises(ImportError, match=f"{name!r}.*pip install statsmodels"):
        load(name)
    assert CATALOGUE[name].kind == "pip"
