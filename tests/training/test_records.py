"""What is recorded, when, and that it is what it says it is."""

import numpy as np
import pytest

import neuralrace as nr
import oracle
from random_problems import random_problem

ROUNDING = 1e-12  # one forward pass or decomposition of matrices of size one
EVERYTHING = ("outputs", "weights", "path_singular_values", "weight_singular_values", "activity")
SEEDS, STEPS = 3, 6


def expected_shapes(problem):
    nodes, examples = problem.architecture.nodes, len(problem.task)
    shapes = {"loss": ((), ())}
    for edge, (source, target) in problem.architecture.edges.items():
        name = edge if isinstance(edge, str) else f"{source}->{target}"
        shapes[f"weights[{name}]"] = ((f"{target}_unit", f"{source}_unit"), (nodes[target], nodes[source]))
        count = min(nodes[source], nodes[target])
        shapes[f"weight_singular_values[{name}]"] = ((f"mode_of_{count}",), (count,))
    for path in problem.architecture.paths():
        count = min(nodes[path.source], nodes[path.target])
        shapes[f"path_singular_values[{path}]"] = ((f"mode_of_{count}",), (count,))
    chosen = {"outputs": problem.architecture.outputs, "activity": problem.architecture.hidden}
    chosen |= {"gate_patterns": problem.activations}
    for kind, recorded in chosen.items():
        for node in recorded:
            shapes[f"{kind}[{node}]"] = (("example", f"{node}_unit"), (examples, nodes[node]))
    return shapes


PROBLEMS = {
    "random": random_problem(19),
    "wide": nr.tasks.xor(0.5).problem("linear", hidden=30),  # narrowed for computing; must come back in full width
    "relu": nr.ReLUNetwork(nr.tasks.xor(0.3).task, (5, 4), slope=0.1),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_variable(name):
    problem = PROBLEMS[name]
    record = (*EVERYTHING, "gate_patterns") if problem.activations else EVERYTHING
    run = nr.train(problem, nr.initial.gaussian(0.3), 0.05, STEPS, seeds=SEEDS, record=record)
    shapes = expected_shapes(problem)
    recorded = {n: v for n, v in run.data.data_vars.items() if n != "status" and not n.startswith(("final", "initial"))}
    assert set(recorded) == set(shapes)
    for variable, (dimensions, shape) in shapes.items():
        assert recorded[variable].dims == ("seed", "time", *dimensions), variable
        assert recorded[variable].shape == (SEEDS, STEPS + 1, *shape), variable
        assert recorded[variable].dtype == (bool if variable.startswith("gate_patterns") else np.float64)
    for seed in range(SEEDS):
        for moment in (0, 3, STEPS):
            weights = run.weights(seed, record=moment)
            assert run.loss[seed, moment] == pytest.approx(oracle.loss(problem, weights), rel=ROUNDING)
            found = oracle.activities(problem, weights)
            for node in problem.architecture.outputs:
                at = run.values(f"outputs[{node}]")[seed, moment]
                np.testing.assert_allclose(at, found[node], rtol=0, atol=ROUNDING)
            for node in problem.architecture.hidden:
                at = run.values(f"activity[{node}]")[seed, moment]
                np.testing.assert_allclose(at, found[node], rtol=0, atol=ROUNDING)
            for node in problem.activations:  # a slope above zero keeps signs
                np.testing.assert_array_equal(run.values(f"gate_patterns[{node}]")[seed, moment], found[node] > 0)
            for edge, matrix in weights.items():
                label = edge if isinstance(edge, str) else "->".join(edge)
                at = run.values(f"weight_singular_values[{label}]")[seed, moment]
                np.testing.assert_allclose(at, np.linalg.svd(matrix, compute_uv=False), rtol=0, atol=ROUNDING)
            for path in problem.architecture.paths():
                product = np.linalg.multi_dot(
                    [*(weights[edge] for edge in reversed(path.edges)), np.eye(problem.architecture.nodes[path.source])]
                )
                at = run.values(f"path_singular_values[{path}]")[seed, moment]
                np.testing.assert_allclose(at, np.linalg.svd(product, compute_uv=False), rtol=0, atol=ROUNDING)
        oracle.assert_weights_close(run.weights(seed), run.weights(seed, record=-1), ROUNDING)


@pytest.fixture(scope="module")
def dense():
    """Every step of a run with outputs and weights, to compare sparser records with."""
    problem = random_problem(19)
    weights = oracle.random_weights(problem.architecture, 1, 0.4)

    def run(steps=230, **options):
        return nr.train(problem, weights, 0.01, steps, record=("outputs", "weights"), **options)

    return run, run()


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"every": 100}, [0, 100, 200, 230]),
        ({"at": [7, 3, 229, 3]}, [3, 7, 229]),
        ({"at": np.array([230])}, [230]),
    ],
)
def test_which_steps_are_recorded_and_that_they_are_those_of_a_full_record(dense, options, steps):
    make, whole = dense
    run = make(**options)
    assert run.data["step"].values.tolist() == steps
    np.testing.assert_allclose(run.time, 0.01 * np.array(steps), rtol=1e-15)
    for name, variable in run.data.data_vars.items():
        wanted = whole.data[name].values
        wanted = wanted if "time" not in variable.dims else wanted[:, steps]
        # the same arithmetic in another program: fused differently, some roundings apart after 230 steps
        np.testing.assert_allclose(variable.values, wanted, rtol=1e-10, atol=1e-12, err_msg=name)


def test_the_settings_are_in_the_record():
    problem = nr.tasks.xor().problem("xor", hidden=2)
    run = nr.train(problem, nr.initial.gaussian(0.1), 0.25, 3, seeds=2, key=11)
    settings = run.settings
    assert settings["learning_rate"] == 0.25
    assert settings["seeds"] == 2
    assert settings["key"] == 11
    assert settings["initial"] == {"name": "gaussian", "std": 0.1}
    assert settings["rule"] == {"rule": "descent", "learning_rate": 0.25}
    assert (settings["loss"], settings["coupling"]) == ("squared", "joint")
    assert run.problem.architecture.nodes == {"x": 2, "h0": 2, "h1": 2, "h2": 2, "h3": 2, "y": 1}
    assert run.data.sizes == {"seed": 2, "time": 4, "x_unit": 2, "y_unit": 1} | {f"h{i}_unit": 2 for i in range(4)}


def test_single_variables_are_those_of_the_whole_record():
    problem = nr.tasks.xor().problem("xor", hidden=2)
    whole, some = (
        nr.train(problem, nr.initial.gaussian(0.1), 0.25, 3, record=record)
        for record in (("weights", "outputs"), ("weights[x->h1]", "outputs", "weights[x->h1]"))
    )
    kept = {str(name) for name in some.data if not str(name).startswith(("final_weights", "initial_weights"))}
    assert kept == {"loss", "status", "outputs[y]", "weights[x->h1]"}
    for name in ("outputs[y]", "weights[x->h1]"):
        assert np.array_equal(some.values(name), whole.values(name))


def test_what_is_recorded_does_not_change_the_status():
    """The slope at the end is judged on the same steps, however sparse the record is."""
    problem = nr.Problem(nr.Architecture({"x": 1, "y": 1}, [("x", "y")]), nr.Task({"x": [[1.0]]}, {"y": [[1.0]]}))
    for rate in (0.012, 0.02, 0.03):
        options = ({}, {"every": 500}, {"at": [0]}, {"at": [*range(440, 500)]})
        found = {nr.train(problem, {("x", "y"): [[0.0]]}, rate, 500, **given).status[0] for given in options}
        assert len(found) == 1
