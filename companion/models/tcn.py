"""A forecaster without a state: dilated causal convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.cells.noise import check_probability
from companion.checks import check_sizes
from companion.models.forecasting import Horizon, check_past

__all__ = ["TCN"]


class CausalBlock(nn.Module):
    r"""Two causal convolutions beside a path that leaves the input as it is.

    .. math::

        z_t = \phi\Big(\sum_{j=0}^{k-1} W_j x_{t - j d} + b\Big), \qquad
        y_t = \phi(x_t + \text{the same of } z)

    with :math:`\phi` = ReLU, k the kernel size and d the dilation. What lies before the first
    step is 0. Where the widths differ, :math:`x_t` is brought to that of y by a matrix.
    """

    def __init__(
        self,
        width: int,
        channels: int,
        kernel_size: int,
        dilation: int,
        dropout: float,
        **new: Any,
    ) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        of = {"dilation": dilation, **new}
        self.first = norm(nn.Conv1d(width, channels, kernel_size, **of))
        self.second = norm(nn.Conv1d(channels, channels, kernel_size, **of))
        self.shortcut = nn.Conv1d(width, channels, 1, **new) if width != channels else None
        self.reach, self.dropout = (kernel_size - 1) * dilation, dropout

    def forward(self, x: Tensor) -> Tensor:
        """(B, width, T) to (B, channels, T)."""
        z = x
        for convolution in (self.first, self.second):
            z = F.relu(convolution(F.pad(z, (self.reach, 0))))  # zeros on the left alone
            z = F.dropout(z, self.dropout, self.training)
        return F.relu(z + (x if self.shortcut is None else self.shortcut(x)))


class TCN(nn.Module):
    r"""A temporal convolutional network: residual blocks whose dilation doubles.

    Block i of L has dilation :math:`2^i`. An output sees the last

    .. math:: R = 1 + 2 (k - 1)(2^L - 1)

    steps and nothing else, neither the future nor what lies further back; a recurrence has no
    such bound, and waits for it. All steps are computed at once.

    Args:
        input_size: columns of the past, :math:`D`.
        horizon: steps ahead, :math:`F`.
        channels: features of each block.
        levels: number of blocks, :math:`L`.
        kernel_size: :math:`k`.
        dropout: probability of dropping an output of a convolution while training.
        quantiles, target, relative: as of :class:`Forecaster`.
        device, dtype: of the weights.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Attributes:
        receptive_field: R.

    Source:
        Bai et al. (2018), "An empirical evaluation of generic convolutional and recurrent
        networks for sequence modeling", section 3; weight normalization as there.

    Example:
        >>> model = TCN(3, 12, channels=8, levels=4, kernel_size=3)
        >>> model(torch.randn(5, 48, 3)).shape, model.receptive_field
        (torch.Size([5, 12]), 61)
    """

    def __init__(
        self,
        input_size: int,
        horizon: int,
        channels: int = 32,
        levels: int = 5,
        kernel_size: int = 3,
        dropout: float = 0.0,
        *,
        quantiles: Sequence[float] = (),
        target: int = 0,
        relative: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_sizes(channels=(channels, 1), levels=(levels, 1), kernel_size=(kernel_size, 1))
        check_probability("dropout", dropout)
        self.horizon = Horizon(horizon, quantiles, target, relative, input_size)
        self.receptive_field = 1 + 2 * (kernel_size - 1) * (2**levels - 1)
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        widths = [input_size] + [channels] * (levels - 1)
        self.blocks = nn.Sequential(
            *(
                CausalBlock(width, channels, kernel_size, 2**i, dropout, **new)
                for i, width in enumerate(widths)
            )
        )
        self.output = nn.Linear(channels, self.horizon.size, **new)

    def features(self, past: Tensor) -> Tensor:
        """The outputs of the last block at every step, (B, P, D) to (B, P, channels)."""
        check_past(past, self.horizon.columns, self.output.weight)
        return self.blocks(past.transpose(1, 2)).transpose(1, 2)

    def forward(self, past: Tensor) -> Tensor:
        """The forecast: past (B, P, D) to (B, F), or (B, F, Q) with quantiles.

        Raises:
            TypeError, ValueError: if the past has the wrong type, shape, dtype or device.
        """
        return self.horizon.shape(self.output(self.features(past)[:, -1]), past[:, -1])
