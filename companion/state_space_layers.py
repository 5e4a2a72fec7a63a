"""State space layers, batch first: S4D and S4."""

from __future__ import annotations

import torch

from companion.layers import Recurrence


class S4D(Recurrence):
    r"""The diagonal state space layer: each feature drives oscillators of its own.

    .. math::

        h_t = \bar A h_{t-1} + \bar B v_t, \qquad
        y_t = 2\, \mathrm{Re} \sum_n C_n h_{t,n} + D v_t

    It runs as a convolution. See :class:`companion.S4DCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of features, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the input projection, where D ≠ H, has a bias.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        order: numbers of state for each feature, :math:`N`, even.
        frequencies: how ω starts, ``"lin"``, ``"inv"`` or ``"legs"``.
        discretization: ``"zoh"`` or ``"bilinear"``.
        dt_min, dt_max: Δ starts log-uniform between these.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H), state (L·directions, B, HN).

    Source:
        Gu, Gupta, Goel and Ré (2022).

    Example:
        >>> import torch
        >>> layer = S4D(3, 4, num_layers=2, order=8)
        >>> y, h = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, h.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 32]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        order: int = 64,
        frequencies: str = "lin",
        discretization: str = "zoh",
        dt_min: float = 0.001,
        dt_max: float = 0.1,
    ) -> None:
        super().__init__(
            "s4d",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            order=order,
            frequencies=frequencies,
            discretization=discretization,
            dt_min=dt_min,
            dt_max=dt_max,
        )


class S4(Recurrence):
    r"""The structured state space layer, which starts as HiPPO-LegS.

    .. math::

        h_t = \bar A h_{t-1} + \bar B v_t, \qquad y_t = 2\, \mathrm{Re}(C h_t) + D v_t, \qquad
        A = \Lambda - P P^*

    It runs as a convolution. See :class:`companion.S4Cell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of features, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the input projection, where D ≠ H, has a bias.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        order: numbers of state for each feature, :math:`N`, even.
        dt_min, dt_max: Δ starts log-uniform between these.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H), state (L·directions, B, HN).

    Source:
        Gu, Goel and Ré (2022).

    Example:
        >>> import torch
        >>> layer = S4(3, 4, num_layers=2, order=8)
        >>> y, h = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, h.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 32]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        order: int = 64,
        dt_min: float = 0.001,
        dt_max: float = 0.1,
    ) -> None:
        super().__init__(
            "s4",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            order=order,
            dt_min=dt_min,
            dt_max=dt_max,
        )
