"""Layers whose state is a linear recurrence: minimal GRU and LSTM, LRU, RG-LRU, Griffin."""

from __future__ import annotations

import math

import torch

from companion.layers import Recurrence


class MinGRU(Recurrence):
    r"""The minimal GRU layer: one gate, of the input alone.

    .. math:: h_t = (1 - z_t) \odot n_t + z_t \odot h_{t-1}, \qquad z_t = \sigma(W_z x_t + b_z)

    See :class:`companion.MinGRUCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        positive: whether g acts on the candidate, which keeps states positive.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H), state (L·directions, B, H).

    Source:
        Feng et al. (2024).

    Example:
        >>> import torch
        >>> layer = MinGRU(3, 4, num_layers=2)
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
        positive: bool = False,
    ) -> None:
        super().__init__(
            "mingru",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            positive=positive,
        )


class MinLSTM(Recurrence):
    r"""The minimal LSTM layer: two gates, of the input alone, that add up to one.

    .. math:: h_t = f'_t \odot h_{t-1} + i'_t \odot (W_g x_t + b_g)

    See :class:`companion.MinLSTMCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        positive: whether g acts on the candidate, which keeps states positive.
        normalize: whether the two gates share one between them.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H), state (L·directions, B, H).

    Source:
        Feng et al. (2024).

    Example:
        >>> import torch
        >>> layer = MinLSTM(3, 4, num_layers=2)
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
        positive: bool = False,
        normalize: bool = True,
    ) -> None:
        super().__init__(
            "minlstm",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            positive=positive,
            normalize=normalize,
        )


class LRU(Recurrence):
    r"""The linear recurrent unit as a layer: complex numbers that turn and shrink.

    .. math::

        h_t = \lambda \odot h_{t-1} + \gamma \odot (B x_t), \qquad
        y_t = \mathrm{Re}(C h_t) + D \odot x_t

    See :class:`companion.LRUCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of outputs, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: taken because every layer takes it; the equations have none.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        order: number of complex units, :math:`N`; ``None``: H.
        r_min, r_max: the ring on which λ starts.
        max_phase: angles start in (0, ``max_phase``).

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H), state (L·directions, B, 2N).

    Source:
        Orvieto et al. (2023).

    Example:
        >>> import torch
        >>> layer = LRU(3, 4, num_layers=2, order=8)
        >>> y, h = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, h.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 16]))
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
        order: int | None = None,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 2 * math.pi,
    ) -> None:
        super().__init__(
            "lru",
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
            r_min=r_min,
            r_max=r_max,
            max_phase=max_phase,
        )


class RGLRU(Recurrence):
    r"""The real-gated linear recurrent unit as a layer, the recurrence of Griffin.

    .. math::

        h_t = a_t \odot h_{t-1} + \sqrt{1 - a_t^2} \odot (i_t \odot v_t), \qquad
        a_t = \sigma(\Lambda)^{8 r_t}

    See :class:`companion.RGLRUCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        heads: number of blocks on the diagonal of the gates' matrices.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H), state (L·directions, B, H).

    Source:
        De et al. (2024).

    Example:
        >>> import torch
        >>> layer = RGLRU(3, 4, num_layers=2, heads=2)
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
        heads: int = 1,
    ) -> None:
        super().__init__(
            "rglru",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            heads=heads,
        )


class Griffin(Recurrence):
    r"""The recurrent block of Griffin as a layer: a window and the RG-LRU, and a gate.

    .. math::

        h_t = a_t \odot h_{t-1} + \sqrt{1 - a_t^2} \odot (i_t \odot v_t), \qquad
        y_t = W_o(\mathrm{gelu}(g_t) \odot h_t) + b_o

    See :class:`companion.GriffinCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        width: channels, V; ``None``: H.
        heads: number of blocks on the diagonal of the gates' matrices; it divides V.
        window: inputs the convolution sees, k.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H);
        state the pair of h (L·directions, B, V) and the window's past (L·directions, B,
        (k − 1) V).

    Source:
        De et al. (2024).

    Example:
        >>> import torch
        >>> layer = Griffin(3, 4, num_layers=2, heads=2)
        >>> y, (h, past) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, h.shape, past.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 4]), torch.Size([2, 2, 12]))
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
        width: int | None = None,
        heads: int = 1,
        window: int = 4,
    ) -> None:
        super().__init__(
            "griffin",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            width=width,
            heads=heads,
            window=window,
        )
