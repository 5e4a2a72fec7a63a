"""Layers with the constructors, arguments and parameter names of ``torch.nn``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from companion.cells import State
from companion.cells.initialize import Initializer
from companion.layers import Recurrence


class _TorchLayer(Recurrence):
    """The calling convention of ``torch.nn.RNNBase``."""

    _names = ("input", "hx")
    _unprinted = ("nonlinearity", "proj_size", "recurrent_init")  # as torch prints its layers
    proj_size = 0
    _batch_first = False

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: State | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        reset: Tensor | None = None,
        form: str | None = None,
    ) -> tuple[Any, State]:
        """The whole sequence; see :meth:`companion.Recurrence.forward`.

        As in torch, ``hx`` may be a list of the two tensors of a pair.
        """
        hx = tuple(hx) if isinstance(hx, list) else hx
        return super().forward(input, hx, lengths=lengths, reset=reset, form=form)


class RNN(_TorchLayer):
    r"""The vanilla recurrent layer, a drop-in for ``torch.nn.RNN``.

    .. math:: h_t = \phi(W_{ih} x_t + b_{ih} + W_{hh} h_{t-1} + b_{hh})

    Same constructor, calls, returns, parameter names and, from the same seed, the same weights.
    What torch lacks is keyword-only: ``lengths``, ``reset``, ``form``, ``recurrent_init``, and
    the methods ``initial_state`` and ``step``.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        nonlinearity: :math:`\phi`, ``"tanh"`` or ``"relu"``.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        recurrent_init: how each ``weight_hh`` starts: ``"orthogonal"``, ``"identity"``, a function
            such as :func:`companion.spectral_radius` gives, or ``None`` for torch's uniform draw.
        recurrent_dropout, zoneout: noise on the recurrent path while training; see
            :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input (T, B, D), (B, T, D) if ``batch_first``, (T, D) for one sequence, or a
        PackedSequence; output the same with directions·H features; ``hx`` and the final state
        (L·directions, B, H).

    Source:
        Elman (1990); the equation in torch's form.

    Example:
        >>> import torch
        >>> rnn = RNN(3, 4, batch_first=True)
        >>> rnn.load_state_dict(torch.nn.RNN(3, 4).state_dict())
        <All keys matched successfully>
        >>> y, h_n = rnn(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, h_n.shape, y[1].abs().sum().item()
        (torch.Size([2, 7, 4]), torch.Size([1, 2, 4]), 0.0)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        recurrent_init: str | Initializer | None = None,
        recurrent_dropout: float = 0.0,
        zoneout: float | Sequence[float] = 0.0,
    ) -> None:
        super().__init__(
            "rnn",
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
            recurrent_init=recurrent_init,
            recurrent_dropout=recurrent_dropout,
            zoneout=zoneout,
        )
        self.nonlinearity = nonlinearity


class LSTM(_TorchLayer):
    r"""Long short-term memory, a drop-in for ``torch.nn.LSTM``.

    The equations, and what each option changes, stand at :class:`companion.LSTMCell`. Same
    constructor, calls, returns, parameter names and, from the same seed, the same weights as
    torch. What torch lacks is keyword-only.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        proj_size: size P of a projected output; 0: none.
        device, dtype: of the weights.
        peephole: whether the gates see the cell state as well.
        coupled: whether the input gate is one minus the forget gate.
        layer_norm: whether the gates' sums and the cell state are normalized.
        forget_gate: whether there is one; without it the cell state only adds up.
        forget_bias: start value of each forget gate's bias, in one vector, the other being 0.
        chrono: longest lag that the gates should remember at the start; see the cell.
        recurrent_init: how each gate's block of ``weight_hh`` starts.
        recurrent_dropout, zoneout: noise on the recurrent path while training; see
            :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        input and output as of :class:`companion.RNN`, with P = ``proj_size`` or H features a
        direction; ``hx`` and the final state a pair,
        h (L·directions, B, P) and c (L·directions, B, H).

    Source:
        Hochreiter and Schmidhuber (1997); the forget gate Gers et al. (2000).

    Example:
        >>> import torch
        >>> lstm = LSTM(3, 4, batch_first=True, forget_bias=1.0)
        >>> y, (h_n, c_n) = lstm(torch.zeros(2, 7, 3), lengths=[7, 0])
        >>> y.shape, h_n.shape
        (torch.Size([2, 7, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        peephole: bool = False,
        coupled: bool = False,
        layer_norm: bool = False,
        forget_gate: bool = True,
        forget_bias: float | None = None,
        chrono: float | None = None,
        recurrent_init: str | Initializer | None = None,
        recurrent_dropout: float = 0.0,
        zoneout: float | Sequence[float] = 0.0,
    ) -> None:
        super().__init__(
            "lstm",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            proj_size=proj_size,
            peephole=peephole,
            coupled=coupled,
            layer_norm=layer_norm,
            forget_gate=forget_gate,
            forget_bias=forget_bias,
            chrono=chrono,
            recurrent_init=recurrent_init,
            recurrent_dropout=recurrent_dropout,
            zoneout=zoneout,
        )
        self.proj_size = proj_size


class GRU(_TorchLayer):
    r"""The gated recurrent unit, a drop-in for ``torch.nn.GRU``.

    The equations stand at :class:`companion.GRUCell`. Same constructor, calls, returns, parameter
    names and, from the same seed, the same weights as torch. What torch lacks is keyword-only.

    Args:
        input_size: number of input features, :math:`D`.
        hidden_size: number of hidden units, :math:`H`.
        num_layers: number of stacked layers, :math:`L`.
        bias: whether the biases exist.
        batch_first: whether inputs and outputs are (B, T, ...); the state never is.
        dropout: probability of dropping an output between layers while training.
        bidirectional: whether to run both directions.
        device, dtype: of the weights.
        reset_after: ``True`` as torch and cuDNN have it, ``False`` as first published.
        chrono: longest lag that the update gate should remember at the start; see the cell.
        recurrent_init: how each gate's block of ``weight_hh`` starts.
        recurrent_dropout, zoneout: noise on the recurrent path while training; see
            :class:`companion.Recurrence`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.

    Shapes:
        as of :class:`companion.RNN`.

    Source:
        Cho et al. (2014).

    Example:
        >>> import torch
        >>> gru = GRU(3, 4)
        >>> gru.load_state_dict(torch.nn.GRU(3, 4).state_dict())
        <All keys matched successfully>
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        reset_after: bool = True,
        chrono: float | None = None,
        recurrent_init: str | Initializer | None = None,
        recurrent_dropout: float = 0.0,
        zoneout: float | Sequence[float] = 0.0,
    ) -> None:
        super().__init__(
            "gru",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device,
            dtype,
            reset_after=reset_after,
            chrono=chrono,
            recurrent_init=recurrent_init,
            recurrent_dropout=recurrent_dropout,
            zoneout=zoneout,
        )
