"""The layers whose state is a matrix a head: linear attention and what came of it."""

from __future__ import annotations

import torch

from companion.layers import Recurrence


class LinearAttention(Recurrence):
    r"""Linear attention: a causal attention without a softmax, which is a recurrence.

    .. math::

        S_t = S_{t-1} + \phi(k_t) v_t^\top, \quad z_t = z_{t-1} + \phi(k_t), \qquad
            y_t = W_o \frac{S_t^\top \phi(q_t)}{z_t^\top \phi(q_t)}

    See :class:`companion.LinearAttentionCell`.

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
        feature_map: :math:`\phi`: ``"elu"`` for elu(a) + 1, ``"relu"`` or ``"identity"``.
        normalize: whether outputs are divided by the sum of their weights.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H);
        state the pair of S (L·directions, B, H²/heads) and z (L·directions, B, H), without
        ``normalize`` S alone.

    Source:
        Katharopoulos et al. (2020).

    Example:
        >>> import torch
        >>> layer = LinearAttention(3, 4, num_layers=2)
        >>> y, (S, z) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, S.shape
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
        feature_map: str = "elu",
        normalize: bool = True,
    ) -> None:
        super().__init__(
            "linear_attention",
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
            feature_map=feature_map,
            normalize=normalize,
        )


class RetNet(Recurrence):
    r"""Multi-scale retention: linear attention with a decay for each head and a turn each step.

    .. math::

        S_t = \gamma R_{-\theta} S_{t-1} + k_t v_t^\top, \qquad
            y_t = W_o\big(\mathrm{swish}(W_g x_t) \odot \mathrm{norm}(S_t^\top q_t)\big)

    See :class:`companion.RetNetCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, ``heads`` times an even number.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist; the authors have none.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        heads: number of heads.
        expand: values have ``expand`` · H features.
        norm: ``"group"``, as in the paper, or ``"rms"``, as in the authors' code.
        normalize_score: whether the paper's two normalizations of the score come before the norm.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H);
        state S (L·directions, B, expand·H²/heads); with ``normalize_score`` the triple of S, the
        sum of keys and the sum of decays.

    Source:
        Sun et al. (2023).

    Example:
        >>> import torch
        >>> layer = RetNet(3, 4, num_layers=2)
        >>> y, S = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, S.shape
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
        heads: int = 2,
        expand: int = 2,
        norm: str = "group",
        normalize_score: bool = False,
    ) -> None:
        super().__init__(
            "retnet",
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
            norm=norm,
            normalize_score=normalize_score,
        )


class DeltaNet(Recurrence):
    r"""The delta rule: what a key holds is taken away before its new value is written.

    .. math::

        S_t = \alpha_t (I - \beta_t k_t k_t^\top) S_{t-1} + \beta_t k_t v_t^\top, \qquad
            y_t = W_o\, \mathrm{rms}(S_t^\top q_t)

    See :class:`companion.DeltaNetCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, a multiple of ``heads``.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist; the authors have none.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        heads: number of heads.
        expand: values have ``expand`` · H features.
        window: inputs the convolution of q, k, v sees; 1: there is none.
        gated: whether there are a decay and an output gate; else :math:`\alpha = 1`.
        negative_eigenvalues: whether :math:`\beta` reaches to 2 instead of 1.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H);
        state the pair of S (L·directions, B, expand·H²/heads) and the window's past.

    Source:
        Schlag et al. (2021), Yang et al. (2024, 2025).

    Example:
        >>> import torch
        >>> layer = DeltaNet(3, 4, num_layers=2, gated=True)
        >>> y, (S, past) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, S.shape
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
        expand: int = 1,
        window: int = 4,
        gated: bool = False,
        negative_eigenvalues: bool = False,
    ) -> None:
        super().__init__(
            "deltanet",
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
            window=window,
            gated=gated,
            negative_eigenvalues=negative_eigenvalues,
        )


class RWKV(Recurrence):
    r"""Time mixing of RWKV-4: each channel's mean of all values so far.

    .. math::

        y_t = W_o(\sigma(r_t) \odot \mathrm{wkv}_t), \qquad
            \mathrm{wkv}_t = \frac{\sum_{j<t} e^{-(t-1-j) w + k_j} v_j + e^{u + k_t} v_t}
            {\sum_{j<t} e^{-(t-1-j) w + k_j} + e^{u + k_t}}

    See :class:`companion.RWKVCell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist; the author has none.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H);
        state the quadruple of what the last input adds to the next step, (L·directions, B, 3H),
        and numerator, denominator and maximum, each (L·directions, B, H).

    Source:
        Peng et al. (2023).

    Example:
        >>> import torch
        >>> layer = RWKV(3, 4, num_layers=2)
        >>> y, (last, num, den, peak) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, peak.shape
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
    ) -> None:
        super().__init__(
            "rwkv4",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
        )


class RWKV7(Recurrence):
    r"""Time mixing of RWKV-7: the delta rule with a decay and a rate for each channel.

    .. math::

        S_t = \big(\mathrm{diag}(w_t) - (\eta_t \odot \kappa_t) \kappa_t^\top\big) S_{t-1}
            + k_t v_t^\top

    See :class:`companion.RWKV7Cell`.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`, a multiple of ``heads``.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist; the author has none.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        heads: number of heads.
        rank: of the low-rank products of decay, rate and gate.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (B, T, D), output (B, T, directions·H);
        state the pair of S (L·directions, B, H²/heads) and what the last input adds to the next
        step.

    Source:
        Peng et al. (2025).

    Example:
        >>> import torch
        >>> layer = RWKV7(3, 4, num_layers=2)
        >>> y, (S, last) = layer(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, S.shape
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
        rank: int = 8,
    ) -> None:
        super().__init__(
            "rwkv7",
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
            rank=rank,
        )
