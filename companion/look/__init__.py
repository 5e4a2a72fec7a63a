"""Looking at a network, and at the book's own numbers."""

from __future__ import annotations

import os

import torch

from companion.look.checkup import checkup
from companion.look.claims import claim
from companion.look.doctor import doctor
from companion.look.flow import (
    GradientFlow,
    JacobianNorms,
    gradient_flow,
    jacobian_norms,
    jacobians,
    lyapunov_exponents,
)
from companion.look.recorded import Recorded, recorded
from companion.look.report import Finding, Report
from companion.look.shapes import ShapeLedger, shapes
from companion.look.source import show_source
from companion.look.studies import run_study, write_study
from companion.look.style import COLORS, LINESTYLES, MARKERS, PALETTE, figure, use_style
from companion.reproduce import default_device, deterministic, seed_all

__all__ = [
    "COLORS",
    "Finding",
    "GradientFlow",
    "JacobianNorms",
    "LINESTYLES",
    "MARKERS",
    "PALETTE",
    "Recorded",
    "Report",
    "ShapeLedger",
    "chapter",
    "checkup",
    "claim",
    "doctor",
    "figure",
    "gradient_flow",
    "jacobian_norms",
    "jacobians",
    "lyapunov_exponents",
    "recorded",
    "run_study",
    "shapes",
    "show_source",
    "use_style",
    "write_study",
]


def chapter(seed: int = 0) -> torch.device:
    """Open a chapter: seeds, deterministic algorithms, no TF32, the figure style, one thread.

    Where OMP_NUM_THREADS says nothing, torch computes on one thread: on tensors as small as a
    chapter's more are no faster, and beside another process several times slower.

    Args:
        seed: for :func:`companion.seed_all`.

    Returns:
        the device the chapter runs on (``COMPANION_DEVICE``, else the CPU).

    Raises:
        ValueError, RuntimeError: as :func:`companion.default_device`.

    Example:
        >>> device = chapter()
        >>> torch.are_deterministic_algorithms_enabled()
        True
    """
    device = default_device()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    deterministic()
    use_style()
    seed_all(seed)
    return device
