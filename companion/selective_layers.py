"""The layers with gates of exponentials: Mamba, Mamba-2, mLSTM, sLSTM; batch first."""

from __future__ import annotations

import torch

from companion.layers import Recurrence


class Mamba(Recurrence):
    r"""Mamba: a state space whose step size, reading and writing depend on the input.

    .. math::

        h_t = e^{\Delta_t A} \odot h_{t-1} + \Delta_t B_t u_t, \qquad
            y_t = W_o\big((h_t C_t + D \odot u_t) \odot \mathrm{silu}(z_t)\big)

    See :class:`companion.MambaCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist; the authors have none.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        expand: channels, V = ``expand`` · H.
        slots: numbers of state for each channel, N.
        window: inputs the convolution sees, k.
        rank: of the product that gives the step size; ``None``: H / 16, rounded up.
        discretization: of the input, ``"euler"`` as in the authors' code, or ``"zoh"`` as in the
            paper.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H);
        state the pair of h (L·directions, B, V·N) and the window's past (L·directions, B,
        (k − 1) V).

    Source:
        Gu and Dao (2023).

    Example:
        >>> import torch
        >>> layer = Mamba(3, 4, num_layers=2)
        >>> y, (h, past) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, h.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 128]))
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
        expand: int = 2,
        slots: int = 16,
        window: int = 4,
        rank: int | None = None,
        discretization: str = "euler",
    ) -> None:
        super().__init__(
            "mamba",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            expand=expand,
            slots=slots,
            window=window,
            rank=rank,
            discretization=discretization,
        )


class Mamba2(Recurrence):
    r"""Mamba-2: a state space with one decay for each head, and a matrix for its state.

    .. math::

        S_t = e^{\Delta_t A} S_{t-1} + \Delta_t B_t u_t^\top, \qquad
            y_t = W_o\, \mathrm{rms}\big((S_t^\top C_t + D u_t) \odot \mathrm{silu}(z_t)\big)

    See :class:`companion.Mamba2Cell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist; the authors have none.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        heads: number of heads; it divides V.
        expand: channels, V = ``expand`` · H.
        slots: rows of each head's state, N.
        window: inputs the convolution sees, k.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H);
        state the pair of S (L·directions, B, N·V) and the window's past (L·directions, B,
        (k − 1)(V + 2N)).

    Source:
        Dao and Gu (2024).

    Example:
        >>> import torch
        >>> layer = Mamba2(3, 4, num_layers=2)
        >>> y, (S, past) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, S.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 128]))
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
        heads: int = 2,
        expand: int = 2,
        slots: int = 16,
        window: int = 4,
    ) -> None:
        super().__init__(
            "mamba2",
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
            expand=expand,
            slots=slots,
            window=window,
        )


class MLSTM(Recurrence):
    r"""The mLSTM: a matrix for memory and an exponential input gate.

    .. math::

        C_t = f_t C_{t-1} + i_t k_t v_t^\top, \quad n_t = f_t n_{t-1} + i_t k_t, \qquad
            h_t = o_t \odot \frac{C_t^\top q_t}{\max(|n_t^\top q_t|, 1)}

    See :class:`companion.MLSTMCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, a multiple of ``heads``.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        heads: number of heads.
        forget: ``"sigmoid"`` or ``"exp"``.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H);
        state the triple of C (L·directions, B, H²/heads), n (L·directions, B, H) and the
        stabilizer m (L·directions, B, heads).

    Source:
        Beck et al. (2024).

    Example:
        >>> import torch
        >>> layer = MLSTM(3, 4, num_layers=2)
        >>> y, (C, n, m) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, C.shape
        (torch.Size([2, 7, 4]), torch.Size([2, 2, 8]))
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
        heads: int = 2,
        forget: str = "sigmoid",
    ) -> None:
        super().__init__(
            "mlstm",
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
            forget=forget,
        )


class SLSTM(Recurrence):
    r"""The sLSTM: exponential gates that see the units of their head a step ago.

    .. math::

        c_t = f_t \odot c_{t-1} + i_t \odot \tanh \tilde z_t, \quad n_t = f_t \odot n_{t-1} + i_t,
            \qquad h_t = \sigma(\tilde o_t) \odot c_t / n_t

    See :class:`companion.SLSTMCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, a multiple of ``heads``.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        heads: number of heads.
        forget: ``"sigmoid"`` or ``"exp"``.
        recurrent_dropout, zoneout: noise on the recurrent path while training, zoneout of h; see
            :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H);
        state the quadruple of h, c, n and the stabilizer m, each (L·directions, B, H).

    Source:
        Beck et al. (2024).

    Example:
        >>> import torch
        >>> layer = SLSTM(3, 4, num_layers=2)
        >>> y, (h, c, n, m) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
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
        heads: int = 2,
        forget: str = "sigmoid",
        recurrent_dropout: float = 0.0,
        zoneout: float = 0.0,
    ) -> None:
        super().__init__(
            "slstm",
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
            forget=forget,
            recurrent_dropout=recurrent_dropout,
            zoneout=zoneout,
        )
