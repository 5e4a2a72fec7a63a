"""The progress bar of an epoch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

__all__ = ["bar"]


def bar(batches: Iterable[Any], title: str, show: bool | None, rank: int = 0) -> Iterable[Any]:
    """Wrap batches in a progress bar (on stderr), or leave them as they are.

    Args:
        batches: of an epoch.
        title: before the bar.
        show: whether to; None: in a terminal and in Jupyter, unless the environment variable
            ``COMPANION_PROGRESS`` is 0.
        rank: of the process; only the first has a bar.
    """
    wish = os.environ.get("COMPANION_PROGRESS", "")
    if show is None and wish in ("0", "1"):
        show = wish == "1"
    if show is None:
        watched = sys.stderr.isatty() or "ipykernel" in sys.modules
        show = watched and not ({"CI", "PYTEST_CURRENT_TEST"} & set(os.environ))
    if not show or rank > 0:
        return batches
    from tqdm import tqdm

    return tqdm(batches, desc=title, leave=False)
