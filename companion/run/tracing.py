"""Whether what runs is recorded, to be run again with other values, or hides a batch."""

from __future__ import annotations

import torch
from torch import Tensor

from companion.cells.base import Cell

# where `make_fx(..., pre_dispatch=True)` keeps the mode that records; a name of torch's own
_before_dispatch = getattr(torch._ops, "_get_dispatch_mode_pre_dispatch", lambda key: None)


def is_traced() -> bool:
    """Whether ``torch.compile``, ``torch.export``, ``torch.jit.trace`` or ``make_fx`` records.

    A form that looks at a value would record a choice that other values do not share.
    """
    return torch.compiler.is_compiling() or torch._C._is_tracing() or _is_proxied()


def is_exported() -> bool:
    """Whether ``torch.export`` records: no value is known, and none can be checked."""
    return bool(getattr(torch.compiler, "is_exporting", lambda: False)())


def hindered(cell: Cell) -> str | None:
    """Why no form that rearranges time can run this cell now, or ``None``."""
    if cell._mask is not None:
        return "recurrent dropout is on"
    if is_traced():
        return "tracing records the loop instead"
    return None


def _is_proxied() -> bool:
    """Whether ``make_fx`` records."""
    key = torch._C._TorchDispatchModeKey.PROXY
    return torch._C._get_dispatch_mode(key) is not None or _before_dispatch(key) is not None


def _has_old_key(t: Tensor) -> bool:
    return bool(torch._C._dispatch_keys(t).has(torch._C._dispatch_key_parse("Batched")))


# torch 2.3 has not the function, but the key by which the operators are chosen
is_old_batched = getattr(torch._C._functorch, "is_legacy_batchedtensor", _has_old_key)
