"""Words and scales of figures: nothing over the data, one scale for one kind of number."""

import numpy as np
import pytest

from neuralrace.plotting import heat_map, label_axes, new_panels
from neuralrace.plotting.panels import curve_panels


def test_a_legend_stands_below_the_axis() -> None:
    figure, (axis,) = new_panels(1)
    axis.plot([0, 1], [0, 1], alpha=0.1, label="a faint line")
    label_axes(axis, "a title that is much too long for the panel that it stands above, and more", "x", "y")
    figure.draw_without_rendering()
    legend = axis.get_legend()
    assert legend.get_window_extent().y1 < axis.xaxis.label.get_window_extent().y1
    assert legend.legend_handles[0].get_alpha() == 1.0
    assert axis.get_title().startswith("a title")
    assert axis.title.get_window_extent().x1 < figure.bbox.x1


@pytest.mark.parametrize(
    ("matrix", "limits"),
    [([[0.2, 0.9]], (0.0, 1.0)), ([[0.0, 6.0]], (0.0, 6.0)), ([[-1.0, 4.0]], (-4.0, 4.0))],
)
def test_shares_have_a_scale_from_zero_to_one_and_signs_a_white_middle(matrix, limits) -> None:
    _, (axis,) = new_panels(1)
    heat_map(axis, np.array(matrix), "shares", horizontal="x", vertical="y", value="share")
    assert axis.images[0].get_clim() == limits


@pytest.mark.parametrize("loss", [np.full(5, 0.5), np.zeros(5), np.array([1.0, 2.0, 1e9, np.inf, np.nan])])
def test_curves_of_many_settings_have_limits_whatever_their_losses_are(loss) -> None:
    falling = np.geomspace(1.0, 1e-9, 5) * (loss[0] > 0)
    curves = [
        {"time": np.arange(5.0), "run": np.array([loss, falling])},
        {"time": np.arange(5.0), "forecast": loss[None]},
    ]
    figure = curve_panels(["a", "b"], ["one", "two"], curves)
    figure.draw_without_rendering()
    for axis in figure.axes:
        low, high = axis.get_ylim()
        assert np.isfinite([low, high]).all()
        assert high <= 15
        assert (axis.get_yscale() == "log") == (loss[0] > 0)
        assert low > 1e-6 or loss[0] == 0
