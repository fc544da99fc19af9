import numpy as np
import pytest

from neuralrace import tasks
from neuralrace.tasks.named.routing import TARGETS
from neuralrace.tasks.pairs import trained_pairs
from oracle import random_weights


def test_default_data_set_has_the_published_modes():
    strengths = np.linalg.svd(np.array(TARGETS, dtype=float), compute_uv=False)
    np.testing.assert_allclose(strengths, [np.sqrt(185), np.sqrt(41), 3, 3], rtol=1e-14)
    assert 0.5 * (np.array(TARGETS) ** 2).sum() == 122  # half the squared error of a silent network, per task


def test_an_example_holds_its_route_and_nothing_else():
    named = tasks.routing(5, 2)
    source, sink, item = (named.groups[g] for g in ("input domain", "output domain", "item"))
    for example in range(len(named.task)):
        for domain in range(5):
            shown = np.eye(4)[item[example]] if source[example] == domain else np.zeros(4)
            wanted = TARGETS[item[example]] if sink[example] == domain else np.zeros(7)
            np.testing.assert_array_equal(named.task.inputs[f"x{domain}"][example], shown)
            np.testing.assert_array_equal(named.task.targets[f"y{domain}"][example], wanted)
    routes = {(int(i), int(j)) for i, j in zip(source, sink, strict=True)}
    assert routes == set(map(tuple, np.argwhere(trained_pairs("neighbors", 5, 2)).tolist()))
    assert named.groups["trained"].all()


def test_path_moments_are_those_of_p1():
    domains, trained = 7, 4
    problem = tasks.routing(domains, trained).problem("shared", hidden=2)
    assert problem.architecture.count_paths() == domains**2
    stats = problem.statistics()
    assert len(stats.open_paths) == domains * trained
    pattern = trained_pairs("neighbors", domains, trained)
    for path in problem.architecture.paths():
        share = pattern[int(path.source[1:]), int(path.target[1:])] / (trained * domains)
        expected = share * np.array(TARGETS).T / 4  # eq. 41, <y x^T> of the data set
        np.testing.assert_allclose(stats.input_output(path), expected, rtol=1e-13)
        np.testing.assert_allclose(stats.input(path, path), share * np.eye(4) / 4, rtol=1e-13)  # eq. 43
        if share:
            assert stats.partners(path) == (path,)  # eq. 43: no two paths are open together


@pytest.mark.parametrize(("domains", "shares"), [(10, [1, 4, 25, 100]), (7, [1, 49]), (1, [1])])
def test_partly_shared_gatings_have_a_root_that_divides_the_domains(domains, shares):
    gatings = tasks.routing(domains, 1).gatings
    alone = [f"P={share}" for share in shares]
    both = [f"shared + P={share}" for share in shares if share < domains**2]
    assert set(gatings) == {"shared", *alone, *both}


@pytest.mark.parametrize("share", [1, 4, 9, 36])
def test_partly_shared_gatings_give_the_rates_of_eqs_16_and_17(share):
    domains = 6
    problem = tasks.routing(domains, domains).problem(f"P={share}", hidden=1)
    architecture, stats = problem.architecture, problem.statistics()
    base = np.array(TARGETS).T / 4
    rates = dict.fromkeys(architecture.edges, 0.0)
    for path in stats.open_paths:
        moment = stats.input_output(path)
        np.testing.assert_allclose(moment, base / domains**2, rtol=1e-13)
        for edge in path.edges:
            rates[edge] += moment[0, 0] / base[0, 0]
    assert len(stats.open_paths) == domains**2 == architecture.count_paths()
    matrices = [edge for edge in rates if edge[0].startswith("h1")]
    assert len(matrices) == domains**2 // share
    for edge, rate in rates.items():
        counted = share if edge in matrices else np.sqrt(share)
        assert rate == pytest.approx(counted / domains**2, rel=1e-13)


def test_shared_and_unshared_pathways_together_add_up():
    named = tasks.routing(4, 4)
    parts = {gating: named.problem(gating, 3) for gating in ("shared", "P=1", "P=4")}
    for gating in ("P=1", "P=4"):
        both = named.problem(f"shared + {gating}", 3)
        weights = random_weights(both.architecture, 0)
        sums = {node: np.zeros(rows.shape) for node, rows in named.task.targets.items()}
        for part in ("shared", gating):
            edges = parts[part].architecture.edges
            for node, rows in parts[part].forward({edge: weights[edge] for edge in edges}).items():
                sums[node] += rows
        for node, rows in both.forward(weights).items():
            np.testing.assert_allclose(rows, sums[node], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("gating", ["shared", "P=1", "P=4", "shared + P=1"])
def test_evaluation_is_the_same_network_on_all_routes(gating):
    named = tasks.routing(4, 2)
    problem, evaluation = named.problem(gating, 3), tasks.routing(4, 2, routes="all").problem(gating, 3)
    assert problem.architecture == evaluation.architecture
    complete = tasks.routing(4, 2, routes="all")
    assert len(complete.task) == 4 * 4 * 4
    trained = complete.groups["trained"]
    assert trained.sum() == len(named.task)
    weights = random_weights(problem.architecture, 2)
    everywhere, here = evaluation.forward(weights), problem.forward(weights)
    for node, rows in here.items():
        np.testing.assert_allclose(everywhere[node][trained], rows, rtol=1e-12, atol=1e-12)
