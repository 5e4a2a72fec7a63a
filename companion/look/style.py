"""One figure style for the book: it survives color blindness and gray print."""

from __future__ import annotations

from typing import Any

__all__ = ["COLORS", "LINESTYLES", "MARKERS", "PALETTE", "figure", "use_style"]

# Okabe and Ito (2008), without the yellow that vanishes on white. Neighbors among the first five
# differ in lightness by 15 or more (L* 46, 71, 0, 54, 70, 58, 61); line styles part the others.
PALETTE = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "black": "#000000",
    "vermillion": "#D55E00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "purple": "#CC79A7",
}
# A layer has one color wherever layers are compared, by its word as in Recurrence or Backbone.
COLORS = {
    "rnn": PALETTE["black"],
    "gru": PALETTE["blue"],
    "lstm": PALETTE["sky"],
    "attention": PALETTE["vermillion"],
    "mamba": PALETTE["green"],
    "retnet": PALETTE["purple"],
}
LINESTYLES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
WIDTHS = {"text": 6.4, "half": 3.2}  # inches


def use_style() -> None:
    """Set matplotlib's defaults to the book's: palette, line styles, sizes, white ground.

    Colors and line styles are cycled together, so that two curves stay apart without color.
    For points take ``MARKERS`` in the same order. A figure that compares layers takes
    ``color=COLORS[word]`` instead, so that each keeps its color.

    Example:
        >>> COLORS["gru"] == PALETTE["blue"]
        True
        >>> use_style()
        >>> import matplotlib as mpl
        >>> mpl.rcParams["image.cmap"]
        'cividis'
    """
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcParams.update(
        {
            "axes.prop_cycle": cycler(color=list(PALETTE.values())) + cycler(linestyle=LINESTYLES),
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 11,
            "axes.titlelocation": "left",
            "axes.labelsize": 10,
            "font.size": 10,
            "font.family": "DejaVu Sans",  # comes with matplotlib: no warning about fonts
            "legend.fontsize": 9,
            "legend.framealpha": 0.85,
            "legend.edgecolor": "none",
            "legend.handlelength": 2.6,  # long enough to show the line style
            "xtick.labelsize": 9,
            "ytick.labelsize": 9,
            "grid.color": "#D9D9D9",
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.8,
            "lines.markersize": 5,
            "image.cmap": "cividis",
            # opaque white, so that a figure reads on a light and on a dark page
            "figure.facecolor": "white",
            "axes.facecolor": "white",
            "savefig.facecolor": "white",
            "figure.figsize": (WIDTHS["text"], 3.2),
            "figure.dpi": 150,
            "savefig.dpi": 150,
            "figure.constrained_layout.use": True,
        }
    )


def figure(width: str = "text", height: float = 3.2, **subplots: Any) -> tuple[Any, Any]:
    """Open a figure as wide as the text or half of it, with axes.

    Args:
        width: ``"text"`` (6.4 in) or ``"half"`` (3.2 in).
        height: in inches.
        **subplots: passed to ``matplotlib.pyplot.subplots`` (``nrows``, ``ncols``, ``sharex`` …).

    Returns:
        the figure, and one axes or an array of them.

    Raises:
        ValueError: if ``width`` is neither.

    Example:
        >>> fig, (left, right) = figure(ncols=2)
        >>> fig.get_size_inches().tolist()
        [6.4, 3.2]
    """
    if width not in WIDTHS:
        raise ValueError(f"width must be one of {', '.join(WIDTHS)}, got {width!r}")
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(WIDTHS[width], height), **subplots)
