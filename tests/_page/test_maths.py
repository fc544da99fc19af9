"""Formulas in running text are set, and nothing else is touched."""
# ruff: noqa: RUF001  the signs that formulas are set in

import pytest

from neuralrace._page import set_maths


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a word, an item i and 3 < 4", "a word, an item i and 3 &lt; 4"),
        ("Small sigma_0 yields", "Small <i>σ</i><sub>0</sub> yields"),
        ("W_h^T W_h", "<i>W</i><sub>h</sub><sup>T</sup> <i>W</i><sub>h</sub>"),
        ("M B1^2 - B2^2", "M <i>B</i><sub>1</sub><sup>2</sup> - <i>B</i><sub>2</sub><sup>2</sup>"),
        ("sqrt(2/3)", '√<span class="root">2/3</span>'),
        ("a(0)^(L-2)", "a(0)<sup>L−2</sup>"),
        ("1.2e-05 and 1e-3", "1.2 × 10<sup>−5</sup> and 10<sup>−3</sup>"),
        ("K/M at K = 1", "<i>K</i>/<i>M</i> at <i>K</i> = 1"),
        ("lambda/delta", "<i>λ</i>/<i>δ</i>"),
        (r"scale $\sigma_0$", "scale <i>σ</i><sub>0</sub>"),
        (r"$\sqrt{M}$ and $a^{L-2}$", '√<span class="root">M</span> and a<sup>L−2</sup>'),
        ("R^2 of a line", "R<sup>2</sup> of a line"),
        ("jarvis2025-fig2, P2 Fig 2d", "jarvis2025-fig2, P2 Fig 2d"),
        ("-0.4 of it", "−0.4 of it"),
    ],
)
def test_formulas_are_set(text: str, found: str) -> None:
    assert set_maths(text) == found
