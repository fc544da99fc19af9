"""What values look like: one short line, and in a notebook a table in which nothing is taken for markup."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.markup import titled_table

TASK = nr.Task({"x": np.eye(3)}, {"<y>": np.ones((3, 1))})
CHAIN = nr.Architecture({"x": 3, "h": 2, "<y>": 1}, [("x", "h"), ("h", "<y>")])
GATES = nr.Gates({"h": [1, 0, 0]}, {("x", "h"): [1, 1, 0]})
PROBLEM = nr.Problem(CHAIN, TASK, GATES, {"h": "relu"})


def test_texts_are_escaped():
    found = titled_table("a & b", ("<i>",), [("<script>",)])
    assert found == (
        "<div><b>a &amp; b</b><table><tr><th>&lt;i&gt;</th></tr><tr><td>&lt;script&gt;</td></tr></table></div>"
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (TASK, ["Task of 3 examples", "<td>&lt;y&gt;</td><td>target</td><td>1</td>"]),
        (GATES, ["<td>h</td><td></td><td>33%</td>", "<td>x-&gt;h</td><td></td><td>67%</td>"]),
        (nr.Gates(), ["Gates(all open)"]),
        (PROBLEM, ["Problem: 2 edges, 3 examples", "<td>2</td><td>LeakyReLU(slope=0.0)</td><td>33%</td>"]),
    ],
)
def test_values_in_a_notebook(value, words):
    for expected in words:
        assert expected in value._repr_html_()


def test_values_in_one_short_line():
    assert repr(PROBLEM) == (
        "Problem(x: 3, h: 2, <y>: 1; 3 examples, Gates(h, x->h; 3 examples), h: LeakyReLU(slope=0.0))"
    )
    wide = nr.Architecture({"x": 3, **{f"h{i}": 1 for i in range(99)}, "<y>": 1}, _fan(99))
    assert len(repr(nr.Problem(wide, TASK, activations={f"h{i}": "relu" for i in range(99)}))) < 230
    assert repr(nr.ReLUNetwork(TASK, 4)) == "ReLUNetwork(x: 3, h1: 4, y: 1; 3 examples, h1: LeakyReLU(slope=0.0))"


def _fan(count):
    return [("x", f"h{i}") for i in range(count)] + [(f"h{i}", "<y>") for i in range(count)]
