"""Dropping entries of recurrent weights, as a parametrization."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from companion.cells.noise import WeightDrop
from companion.layers import Recurrence, suffix

__all__ = ["weight_drop"]


def weight_drop(layer: Recurrence, p: float, names: Sequence[str] | None = None) -> Recurrence:
    r"""Drop entries of the recurrent weights while training (DropConnect), one mask a call.

    .. math:: \tilde W_{hh} = W_{hh} \odot m / (1 - p), \qquad m_{ij} \sim B(1 - p)

    The raw weight stays a parameter, ``layer.parametrizations.weight_hh_l0.original``, gets the
    gradient and is never changed; ``layer.weight_hh_l0`` is the dropped one. All steps of a call
    read the same mask. In evaluation the weight is whole. To take it off again:
    ``torch.nn.utils.parametrize.remove_parametrizations(layer, name, leave_parametrized=False)``.

    Args:
        layer: a recurrent layer of this package.
        p: probability of dropping an entry.
        names: of the cell's weights, such as ``["weight_hh"]``, in every layer and direction;
            ``None``: those that multiply the previous output, ``weight_hh`` and its like.

    Returns:
        The layer itself.

    Raises:
        TypeError: if ``layer`` is not a layer of this package (torch.nn's keep a private list of
            their weights, which a parametrization does not reach).
        ValueError: if p is no probability, or the cells have no such weight.

    Source:
        Merity et al. (2018), "Regularizing and optimizing LSTM language models".

    Example:
        >>> import companion, torch
        >>> lstm = weight_drop(companion.LSTM(3, 4), 0.5)
        >>> bool((lstm.weight_hh_l0 == 0).any()), bool((lstm.eval().weight_hh_l0 == 0).any())
        (True, False)
    """
    if not isinstance(layer, Recurrence):
        raise TypeError(
            f"layer: expected a recurrent layer of companion, got {type(layer).__name__}"
        )
    cells = layer._cells
    if isinstance(names, str):
        raise TypeError(f"names: expected a list of names, got the string {names!r}")
    known = [n for n in cells[0].weight_names() if n not in cells[0]._absent]
    wanted = [n for n in known if n.startswith("weight_hh")] if names is None else list(names)
    for name in wanted:
        if name not in known:
            raise ValueError(f"names: expected some of {known}, got {name!r}")
    if not wanted:
        raise ValueError("names: expected at least one weight; this cell has no weight_hh")
    for k in range(len(cells)):
        for name in wanted:
            full = name + suffix(*divmod(k, layer.directions))
            nn.utils.parametrize.register_parametrization(layer, full, WeightDrop(p))
    return layer
