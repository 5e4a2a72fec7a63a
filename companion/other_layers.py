"""The layers without a twin in ``torch.nn``, batch first: IndRNN, QRNN, SRU, clockwork."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from companion.checks import check_flag
from companion.layers import Recurrence


class IndRNN(Recurrence):
    r"""The independently recurrent layer: each unit remembers itself alone.

    .. math:: h_t = \phi(W x_t + b + u \odot h_{t-1})

    See :class:`companion.IndRNNCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        nonlinearity: :math:`\phi`, ``"relu"``, ``"tanh"`` or ``"identity"``.
        bound: the largest :math:`|u|`, say ``2 ** (1 / T)``; ``None``: any.
        recurrent_dropout, zoneout: noise on the recurrent path while training; see
            :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H), state (L·directions, B, H).

    Source:
        Li et al. (2018).

    Example:
        >>> import torch
        >>> layer = IndRNN(3, 4, num_layers=2, bound=2 ** (1 / 7))
        >>> y, h = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, h.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 4]))
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
        nonlinearity: str = "relu",
        bound: float | None = None,
        recurrent_dropout: float = 0.0,
        zoneout: float = 0.0,
    ) -> None:
        super().__init__(
            "indrnn",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            nonlinearity=nonlinearity,
            bound=bound,
            recurrent_dropout=recurrent_dropout,
            zoneout=zoneout,
        )


class QRNN(Recurrence):
    r"""The quasi-recurrent layer: gates from a window of inputs, and pooling along time.

    .. math::

        c_t = f_t \odot c_{t-1} + (1 - f_t) \odot z_t, \qquad h_t = o_t \odot c_t

    See :class:`companion.QRNNCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        window: number of inputs each gate sees, :math:`k`.
        pooling: ``"f"``, ``"fo"`` or ``"ifo"``.
        pool_zoneout: probability that a unit keeps its state, while training.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H); state c (L·directions, B, H), and with a
        window the pair of c and the sums (L·directions, B, (k − 1)GH).

    Source:
        Bradbury et al. (2017).

    Example:
        >>> import torch
        >>> layer = QRNN(3, 4, num_layers=2)
        >>> y, (c, sums) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, c.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 4]))
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
        window: int = 2,
        pooling: str = "fo",
        pool_zoneout: float = 0.0,
    ) -> None:
        super().__init__(
            "qrnn",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            window=window,
            pooling=pooling,
            pool_zoneout=pool_zoneout,
        )


class SRU(Recurrence):
    r"""The simple recurrent unit: nothing but elementwise operations waits.

    .. math::

        c_t = f_t \odot c_{t-1} + (1 - f_t) \odot W x_t, \qquad
        h_t = r_t \odot g(c_t) + (1 - r_t) \odot \alpha x_t

    See :class:`companion.SRUCell`, and for ``gates_see_state=False``
    :class:`companion.SRU2017Cell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        gates_see_state: whether :math:`f_t` and :math:`r_t` see :math:`c_{t-1}`, as published;
            without it, as first proposed, all steps can run at once.
        nonlinearity: :math:`g`, ``"identity"`` or ``"tanh"``.
        rescale: whether :math:`\alpha` keeps the variance at the start; else it is 1.
        highway_bias: start value of the bias of :math:`r_t`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output h (B, T, directions·H), state c (L·directions, B, H).

    Source:
        Lei et al. (2018); without ``gates_see_state`` the first version of the preprint (2017).

    Example:
        >>> import torch
        >>> layer = SRU(3, 4, num_layers=2)
        >>> y, c = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, c.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 4]))
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
        gates_see_state: bool = True,
        nonlinearity: str = "identity",
        rescale: bool = True,
        highway_bias: float = 0.0,
    ) -> None:
        check_flag("gates_see_state", gates_see_state)
        super().__init__(
            "sru" if gates_see_state else "sru_2017",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            nonlinearity=nonlinearity,
            rescale=rescale,
            highway_bias=highway_bias,
        )
        self.gates_see_state = gates_see_state
        if not gates_see_state:
            self.options["gates_see_state"] = False


class ClockworkRNN(Recurrence):
    r"""The clockwork layer: groups of units that move at their own pace.

    Group i moves when :math:`t \bmod T_i = 0`, and hears itself and the slower groups; a group
    that rests keeps its state. See :class:`companion.ClockworkRNNCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`,
            a multiple of the number of periods.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        periods: :math:`T_1, \dots, T_g`, increasing, one for each group.
        recurrent_dropout, zoneout: noise on the recurrent path while training; see
            :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H); state the pair of h (L·directions, B, H) and
        the time modulo the cycle (L·directions, B, 1).

    Source:
        Koutník et al. (2014).

    Example:
        >>> import torch
        >>> layer = ClockworkRNN(3, 8)
        >>> y, (h, time) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, time.flatten().tolist()
        (torch.Size([2, 7, 8]), [7.0, 0.0])
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
        periods: Sequence[int] = (1, 2, 4, 8),
        recurrent_dropout: float = 0.0,
        zoneout: float = 0.0,
    ) -> None:
        super().__init__(
            "clockwork",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            periods=periods,
            recurrent_dropout=recurrent_dropout,
            zoneout=zoneout,
        )
