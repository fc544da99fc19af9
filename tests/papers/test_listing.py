"""The listing says what the declarations say."""

import pytest

import neuralrace as nr
from neuralrace.errors import NeuralRaceError
from neuralrace.papers import listing


@pytest.mark.parametrize("name", nr.papers.names())
def test_the_listing_is_what_is_declared(name):
    entry, experiment = nr.papers.listed()[name], nr.papers.get(name)
    for told in ("name", "title", "source", "seconds"):
        assert getattr(entry, told) == getattr(experiment, told)


def test_a_figure_without_a_declaration_is_named(tmp_path):
    path = tmp_path / "figure.py"
    path.write_text("OTHER = print(name=1)\n")
    with pytest.raises(NeuralRaceError, match=r"figure\.py must declare EXPERIMENT"):
        listing._declared(path)
