"""Attention: a weighted mean of a memory, whose weights answer a query.

.. math::

    e_{ts} = \\mathrm{score}(q_t, m_s), \\qquad
    \\alpha_{t \\cdot} = \\mathrm{softmax}(e_{t \\cdot}), \\qquad
    \\bar m_t = \\sum_s \\alpha_{ts} m_s

The classes differ in their score. What a score computes from the memory alone is its ``prepare``,
as in a cell: a decoder that asks once a step does that part once a sequence.
"""

from companion.attention.base import Attended, Attention, masked_softmax
from companion.attention.causal import Cache, CausalAttention
from companion.attention.multi_head import MultiHeadAttention
from companion.attention.rotary import rotated
from companion.attention.scores import (
    AdditiveAttention,
    ConcatAttention,
    DotAttention,
    GeneralAttention,
    LocalAttention,
)

__all__ = [
    "AdditiveAttention",
    "Attended",
    "Attention",
    "Cache",
    "CausalAttention",
    "ConcatAttention",
    "DotAttention",
    "GeneralAttention",
    "LocalAttention",
    "MultiHeadAttention",
    "masked_softmax",
    "rotated",
]
