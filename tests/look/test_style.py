"""The figure style: apart in color, in gray, and for color-blind eyes."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from companion.look import COLORS, LINESTYLES, MARKERS, PALETTE, figure, use_style

# Viénot, Brettel and Mollon (1999): linear RGB as a dichromat sees it
DEUTERANOPE = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1]])
PROTANOPE = np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1]])


def linear(color):
    c = np.array(mpl.colors.to_rgb(color))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIE L*a*b* of linear sRGB, white D65."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.fixture(autouse=True)
def restore():
    with mpl.rc_context():
        yield
    plt.close("all")


def test_neighbors_differ_in_gray():
    lightness = [lab(linear(c))[0] for c in PALETTE.values()][:5]
    steps = np.abs(np.diff(lightness))
    assert steps.min() >= 15


@pytest.mark.parametrize("eye", [np.eye(3), DEUTERANOPE, PROTANOPE])
def test_colors_stay_apart(eye):
    seen = [lab(eye @ linear(c)) for c in PALETTE.values()]
    apart = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
    assert min(apart) > 10  # a just noticeable difference is about 2.3


def test_no_color_vanishes_on_white():
    assert max(lab(linear(c))[0] for c in PALETTE.values()) < 75


def test_each_curve_has_its_own_line_and_marker():
    assert len(PALETTE) == len(LINESTYLES) == len(MARKERS) == len(set(MARKERS))
    assert len(set(LINESTYLES)) == len(LINESTYLES)


def test_a_layer_has_a_color_of_its_own():
    assert set(COLORS.values()) <= set(PALETTE.values())
    assert len(set(COLORS.values())) == len(COLORS)


def test_cycle_reaches_the_axes():
    use_style()
    _, ax = figure()
    lines = [ax.plot([0, 1])[0] for _ in range(3)]
    assert [line.get_color() for line in lines] == list(PALETTE.values())[:3]
    assert [line.get_linestyle() for line in lines] == ["-", "--", ":"]


def test_draws_without_warnings(recwarn):
    use_style()
    fig, axes = figure("half", nrows=2, sharex=True)
    axes[0].plot([0, 1], label="h_t ± σ, Δ, ×, ≥")
    axes[0].legend()
    axes[1].imshow(np.eye(3))
    fig.canvas.draw()
    assert fig.get_size_inches()[0] == 3.2 and fig.dpi == 150
    assert [str(w.message) for w in recwarn] == []


def test_width_is_checked():
    with pytest.raises(ValueError, match="width must be one of text, half, got 'wide'"):
        figure("wide")
