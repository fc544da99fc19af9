import inspect

import numpy as np
import pytest

from neuralrace import tasks
from neuralrace.errors import NeuralRaceError, RangeError, TaskError, UnknownNameError
from neuralrace.problem import Problem
from neuralrace.tasks import named, registry

EXPECTED = (
    *("contextual", "contextual_classification", "diabetes", "digits", "hierarchy", "iris", "noisy_xor", "routing"),
    *("semantic", "views", "wine", "xor"),
)


# a page of the docs that was run before may have added another
OWN = [name for name in tasks.names() if getattr(tasks, name).__module__.startswith("neuralrace.")]


def test_names_are_sorted_and_complete():
    assert sorted(OWN) == OWN
    assert set(EXPECTED) <= set(OWN) <= set(dir(tasks))
    assert all(tasks.summaries()[name] for name in OWN)


@pytest.mark.parametrize("name", OWN)
def test_every_task_can_be_made_by_name_without_settings(name):
    factory = getattr(tasks, name)
    made = tasks.get(name)
    assert made.name == name
    assert len(repr(made)) < 600  # no arrays, no functions
    assert set(made.settings) == set(inspect.signature(factory).parameters)
    again = factory(**made.settings)
    for kind in ("inputs", "targets"):
        for node, rows in getattr(made.task, kind).items():
            np.testing.assert_array_equal(rows, getattr(again.task, kind)[node])
    assert all(len(values) == len(made.task) for values in made.groups.values())


@pytest.mark.parametrize("name", OWN)
def test_every_gating_builds_a_network_of_the_width_asked_for(name):
    made = tasks.get(name)
    for gating in made.gatings:
        problem = made.problem(gating, hidden=3)
        assert {problem.architecture.nodes[node] for node in problem.architecture.hidden} == {3}
        assert problem.statistics().open_paths
        usual = made.problem(gating).architecture
        assert {usual.nodes[node] for node in usual.hidden} == {made.hidden}


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UnknownNameError, match=r"no task 'xorr'; did you mean 'xor'\?"):
        tasks.get("xorr")
    with pytest.raises(UnknownNameError, match=r"task 'xor' has no setting 'detla'; did you mean 'delta'\?"):
        tasks.get("xor", detla=1)
    with pytest.raises(UnknownNameError, match=r"task 'xor' has no gating 'linaer'; did you mean 'linear'\?"):
        tasks.xor().problem("linaer")
    with pytest.raises(AttributeError, match=r"'contextul'.*did you mean 'contextual'\?"):
        _ = tasks.contextul


def test_a_new_task_is_one_new_file(monkeypatch, tmp_path):
    (tmp_path / "echo.py").write_text(
        "from neuralrace.task import Task\n"
        "from neuralrace.tasks.pathways import parallel_pathways\n"
        "from neuralrace.tasks.registry import NamedTask, register\n"
        "@register\n"
        "def echo(size):\n"
        "    'Repeat the input.'\n"
        "    task = Task({'x': [[1.0] * size]}, {'y': [[1.0] * size]})\n"
        "    gatings = {'linear': lambda hidden: parallel_pathways(task, {'h': None}, hidden)}\n"
        "    return NamedTask(task, gatings, hidden=2)\n"
    )
    tasks.names()
    monkeypatch.setattr(named, "__path__", [*named.__path__, str(tmp_path)])
    monkeypatch.setattr(registry, "_factories", dict(registry._factories))
    assert "echo" in tasks.names()
    made = tasks.echo(size=3)
    assert isinstance(made.problem("linear"), Problem)
    assert (made.name, made.settings, tasks.summaries()["echo"]) == ("echo", {"size": 3}, "Repeat the input.")


def test_mistakes_are_named():
    with pytest.raises(NeuralRaceError, match="already registered as 'xor'"):
        tasks.register(tasks.xor)
    with pytest.raises(RangeError, match="hidden must be a whole number, at least 1"):
        tasks.xor().problem("xor", 2.5)
    with pytest.raises(TaskError, match="group 'item' must have one label per example, 4; it has 1"):
        tasks.NamedTask(tasks.xor().task, groups={"item": np.zeros(1)})
