"""Attention to the past: a layer with the contract of a recurrence, whose state is a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from companion.attention.rotary import rotated
from companion.cells.base import check_tensor
from companion.cells.noise import check_probability
from companion.checks import check_flag, check_size, check_sizes
from companion.run.plan import check_lengths, check_reset

__all__ = ["Cache", "CausalAttention"]

FORMS = ("parallel", "loop")
NOWHERE = -1  # the position of an entry that nobody may attend to


class Cache(NamedTuple):
    """What a :class:`CausalAttention` keeps of the past: all of it, or what its window sees.

    Attributes:
        keys, values: (B, S, kv_heads, d); S grows with the steps that were read.
        positions: int64 (B, S), the steps since the start or the last reset, from 0; −1 for an
            entry that nobody may attend to.
        steps: int64 (B,), how many since then: the position of the next one.
    """

    keys: Tensor
    values: Tensor
    positions: Tensor
    steps: Tensor


class CausalAttention(nn.Module):
    r"""Multi-head attention of each step to itself and the steps before it.

    .. math::

        q_t, k_t, v_t = R_t W_Q x_t,\; R_t W_K x_t,\; W_V x_t, \qquad
        y_t = W_O \sum_{s \le t} \mathrm{softmax}_s\bigl( q_t^\top k_s / \sqrt d \bigr)\, v_s

    in each head, with the rotation :math:`R_t` of :func:`rotated`. It is called as any recurrent
    layer is. Its state is a :class:`Cache`, which grows by one entry a step, up to ``window``.

    Args:
        embed_dim: features of input and output, :math:`E`.
        num_heads: of the queries, :math:`n`; each has :math:`d = E / n` features.
        kv_heads: heads of keys and values, a divisor of ``num_heads``; each is shared by as many
            queries. Default: ``num_heads``; 1 is multi-query attention.
        window: how many steps a query sees, itself included; None: all.
        rotary: whether queries and keys are rotated by their positions. Without it the order of
            the past counts for nothing.
        dropout: probability of dropping a weight of attention while training.
        bias: whether the products have biases.
        device, dtype: of the weights.

    Raises:
        TypeError, ValueError: if an argument has the wrong type or is out of range.

    Shapes:
        input and output (B, T, E); state: see :class:`Cache`.

    Source:
        Vaswani et al. (2017), section 3.2.3, the decoder; Shazeer (2019) for shared keys and
        values; Beltagy et al. (2020), section 3.1, for the window; Su et al. (2021) for the
        rotation.

    Example:
        >>> layer, x = CausalAttention(8, 2, window=4), torch.randn(3, 7, 8)
        >>> y, cache = layer(x, lengths=[7, 2, 0])
        >>> y.shape, cache.steps.tolist(), cache.keys.shape
        (torch.Size([3, 7, 8]), [7, 2, 0], torch.Size([3, 3, 2, 4]))
        >>> layer.step(x[:, 0], cache)[1].steps.tolist()
        [8, 3, 1]
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int = 4,
        *,
        kv_heads: int | None = None,
        window: int | None = None,
        rotary: bool = True,
        dropout: float = 0.0,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        kv_heads = num_heads if kv_heads is None else kv_heads
        check_sizes(embed_dim=(embed_dim, 1), num_heads=(num_heads, 1), kv_heads=(kv_heads, 1))
        if window is not None:
            check_size("window", window)
        check_flag("rotary", rotary)
        check_flag("bias", bias)
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim: expected a multiple of {num_heads} heads, got {embed_dim}"
            )
        if num_heads % kv_heads:
            raise ValueError(f"kv_heads: expected a divisor of {num_heads} heads, got {kv_heads}")
        self.head_size = embed_dim // num_heads
        if rotary and self.head_size % 2:
            raise ValueError(
                f"embed_dim: expected an even number of features in each of {num_heads} heads, to "
                f"be rotated in pairs, got {self.head_size}"
            )
        self.input_size = self.output_size = self.embed_dim = embed_dim
        self.num_heads, self.kv_heads, self.window, self.rotary = (
            num_heads,
            kv_heads,
            window,
            rotary,
        )
        self.dropout = check_probability("dropout", dropout)
        new: dict[str, Any] = {"device": device, "dtype": dtype}
        shared = kv_heads * self.head_size
        self.query = nn.Linear(embed_dim, embed_dim, bias, **new)
        self.key = nn.Linear(embed_dim, shared, bias, **new)
        self.value = nn.Linear(embed_dim, shared, bias, **new)
        self.output = nn.Linear(embed_dim, embed_dim, bias, **new)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights from Glorot's uniform law; biases are 0."""
        for product in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(product.weight)
            if product.bias is not None:
                nn.init.zeros_(product.bias)

    def extra_repr(self) -> str:
        """Sizes, and the options that differ from their defaults."""
        text = f"{self.embed_dim}, {self.num_heads}"
        if self.kv_heads != self.num_heads:
            text += f", kv_heads={self.kv_heads}"
        if self.window is not None:
            text += f", window={self.window}"
        text += "" if self.rotary else ", rotary=False"
        return text + (f", dropout={self.dropout}" if self.dropout else "")

    def initial_state(self, batch_size: int) -> Cache:
        """An empty cache for as many sequences."""
        check_size("batch_size", batch_size, 0)
        like = self.key.weight
        empty = like.new_empty(batch_size, 0, self.kv_heads, self.head_size)
        steps = torch.zeros(batch_size, dtype=torch.int64, device=like.device)
        return Cache(empty, empty, steps.new_empty(batch_size, 0), steps)

    def step(self, x_t: Tensor, state: Cache | None = None) -> tuple[Tensor, Cache]:
        """One time step, for streaming: (B, E) gives (B, E) and the next cache.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        check_tensor("x_t", x_t, self.key.weight)
        if x_t.dim() != 2 or x_t.shape[1] != self.embed_dim:
            raise ValueError(f"x_t: expected (B, {self.embed_dim}), got {tuple(x_t.shape)}")
        y, state = self._attend(x_t[:, None], self._cache(state, len(x_t)), None, None)
        return y[:, 0], state

    def forward(
        self,
        x: Tensor,
        state: Cache | None = None,
        *,
        lengths: Tensor | Sequence[int] | None = None,
        reset: Tensor | None = None,
        form: str | None = None,
    ) -> tuple[Tensor, Cache]:
        """The whole sequence.

        Args:
            x: (B, T, E).
            state: the past, as :meth:`initial_state` or an earlier call gives it; default: none.
            lengths: (B,) how many steps of each row are valid; the rest may hold NaN.
            reset: bool (B, T): forget the past before this step.
            form: ``"parallel"``, all steps at once, the default; or ``"loop"``, one after another.

        Returns:
            The outputs (B, T, E), 0 where it is padding, and the cache after each row's last
            valid step.

        Raises:
            TypeError, ValueError: if an argument has the wrong type, shape, dtype or device.
        """
        check_tensor("x", x, self.key.weight)
        if x.dim() != 3 or x.shape[2] != self.embed_dim:
            raise ValueError(f"x: expected (B, T, {self.embed_dim}), got {tuple(x.shape)}")
        if form is not None and form not in FORMS:
            raise ValueError(f"form: expected one of {', '.join(FORMS)}, got {form!r}")
        B, T = x.shape[:2]
        known = check_lengths(lengths, B, T, True)
        cuts = check_reset(reset, B, T, True, 1)
        valid = None
        if known is not None:
            valid = torch.arange(T, device=x.device) < known.to(x.device)[:, None]
            x = x.masked_fill(~valid[..., None], 0.0)
        cuts = None if cuts is None else cuts.to(x.device)
        cache = self._cache(state, B)
        if form != "loop":
            return self._attend(x, cache, valid, cuts)
        ys = []
        for t in range(T):
            now = slice(t, t + 1)
            y, cache = self._attend(
                x[:, now],
                cache,
                None if valid is None else valid[:, now],
                None if cuts is None else cuts[:, now],
            )
            ys.append(y)
        return (torch.cat(ys, 1) if ys else x.new_zeros(x.shape)), cache

    def _attend(
        self, x: Tensor, past: Cache, valid: Tensor | None, cuts: Tensor | None
    ) -> tuple[Tensor, Cache]:
        """Steps x (B, T, E) after a past, of which some are valid, and some begin anew."""
        B, T = x.shape[:2]
        if T == 0:
            return x.clone(), past
        t = torch.arange(T, device=x.device).expand(B, T)
        position = past.steps[:, None] + t
        segment = torch.zeros_like(position)  # 0: that of the past
        if cuts is not None:
            cuts = cuts if valid is None else cuts & valid
            start = torch.where(cuts, t, -past.steps[:, None]).cummax(1).values
            position, segment = t - start, cuts.cumsum(1)

        q = self.query(x).unflatten(2, (-1, self.head_size))  # (B, T, n, d)
        k, v = (w(x).unflatten(2, (-1, self.head_size)) for w in (self.key, self.value))
        if self.rotary:
            q, k = rotated(q, position), rotated(k, position)
        keys, values = torch.cat([past.keys, k], 1), torch.cat([past.values, v], 1)
        old = past.positions
        seen = None  # each step sees itself and all before it
        if old.shape[1] or T > 1:
            plain = valid is None and cuts is None and self.window is None
            if not plain or (old.shape[1] and (T > 1 or bool((old == NOWHERE).any()))):
                seen = self._seen(position, segment, old, valid)
        heads = self._weigh(q, keys, values, seen)
        y = self.output(heads.flatten(2))

        steps = position[:, -1] + 1
        if valid is not None:
            y = y.masked_fill(~valid[..., None], 0.0)
            n = valid.sum(1)
            last = position.gather(1, (n - 1).clamp(min=0)[:, None])[:, 0]
            steps = torch.where(n > 0, last + 1, past.steps)
            position = position.masked_fill(~valid, NOWHERE)
        if cuts is not None:  # what the next step does not see is forgotten
            final = segment[:, -1:]
            old = old.masked_fill(final > 0, NOWHERE)
            position = position.masked_fill(segment != final, NOWHERE)
        cache = Cache(keys, values, torch.cat([old, position], 1), steps)
        plain = valid is None and cuts is None and self.window is None and not old.shape[1]
        return y, cache if plain else self._kept(cache)

    def _seen(
        self, position: Tensor, segment: Tensor, old: Tensor, valid: Tensor | None
    ) -> Tensor:
        """Bool (B, T, S + T): what each step may attend to, of the past and of the new steps."""
        before = (segment == 0)[..., None] & (old != NOWHERE)[:, None]
        now = (segment[..., None] == segment[:, None]).tril()
        if valid is not None:
            now = now & valid[:, None]
        seen = torch.cat([before, now], 2)
        if self.window is not None:
            ages = position[..., None] - torch.cat([old, position], 1)[:, None]
            seen = seen & (ages < self.window)
        # padding sees itself: a softmax over nothing would be NaN
        seen[..., old.shape[1] :].diagonal(dim1=1, dim2=2).fill_(True)
        return seen

    def _weigh(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
        """The means (B, T, n, d) of values (B, S, kv, d), for queries (B, T, n, d)."""
        shared = self.num_heads // self.kv_heads
        if shared > 1:
            k, v = k.repeat_interleave(shared, 2), v.repeat_interleave(shared, 2)
        heads = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            attn_mask=None if seen is None else seen[:, None],
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=seen is None and q.shape[1] > 1,
        )
        return heads.transpose(1, 2)

    def _kept(self, cache: Cache) -> Cache:
        """The cache without the entries that no later step can see."""
        keys, values, positions, steps = cache
        if self.window is not None:
            positions = positions.masked_fill(positions <= steps[:, None] - self.window, NOWHERE)
        live = positions != NOWHERE
        if bool(live.all()):
            return cache
        most = int(live.sum(1).max()) if len(live) else 0
        order = positions.argsort(dim=1, stable=True)[:, positions.shape[1] - most :]
        at = order[..., None, None].expand(-1, -1, self.kv_heads, self.head_size)
        return Cache(keys.gather(1, at), values.gather(1, at), positions.gather(1, order), steps)

    def _cache(self, state: Any, B: int) -> Cache:
        """The given state, or an empty one; raise for one that does not fit."""
        if state is None:
            return self.initial_state(B)
        if not isinstance(state, tuple) or len(state) != 4:
            raise TypeError(f"state: expected a Cache, got {type(state).__name__}")
        keys, values, positions, steps = state
        for name, part in (("keys", keys), ("values", values)):
            check_tensor(f"state.{name}", part, self.key.weight)
        for name, part in (("positions", positions), ("steps", steps)):
            if not isinstance(part, Tensor) or part.dtype != torch.int64:
                kind = part.dtype if isinstance(part, Tensor) else type(part).__name__
                raise TypeError(f"state.{name}: expected a tensor of int64, got {kind}")
            if part.device != keys.device:
                raise ValueError(f"state.{name}: expected it on {keys.device}, got {part.device}")
        S = positions.shape[1] if isinstance(positions, Tensor) and positions.dim() == 2 else 0
        shape = (B, S, self.kv_heads, self.head_size)
        for name, part, due in (
            ("keys", keys, shape),
            ("values", values, shape),
            ("positions", positions, (B, S)),
            ("steps", steps, (B,)),
        ):
            if not isinstance(part, Tensor) or tuple(part.shape) != due:
                got = tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
                raise ValueError(f"state.{name}: expected shape {due}, got {got}")
        return Cache(keys, values, positions, steps)
