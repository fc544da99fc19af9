"""Lumping: the classes, the equations they leave, and that nothing is lost by them."""

import numpy as np
from neuralrace.theory.reduction.path_table import coarsest_lumping, path_table

from neuralrace import tasks
from neuralrace.arrays import float64
from neuralrace.theory.reduction.system import reduced_system

TIMES = np.linspace(0.0, 20.0, 41)


def routing(domains, trained, gating="shared", hidden=5):
    return tasks.routing(domains, trained).gatings[gating](hidden)


def table_of(problem):
    return path_table(problem.statistics())


def equal_start(table, value=0.1):
    return {edge: np.full(table.modes, value) for edge in table.edges}


def test_routing_becomes_eqs_13_and_14():
    problem = routing(6, 2)
    reduction = reduced_system(table_of(problem), [equal_start(table_of(problem))])
    # modes 2 and 3 have equal singular values, so three of the four are kept, with two scalars each
    assert [len(v.edges) for v in reduction.variables] == [12, 1] * 3
    assert reduction.variables[-1].modes == (2, 3)
    written = reduction.equations()
    assert written.conserved == tuple(f"6 B1[{m}]^2 - B2[{m}]^2" for m in range(3))  # M B1^2 - B2^2
    s, d, M, K = np.sqrt(185) / 4, 0.25, 6, 2
    assert written.text.splitlines()[0].startswith(
        f"d B1[0]/dt = {K} B2[0] B1[0] [{s / (K * M):.6g} - {d / (K * M):.6g}"
    )
    assert written.text.splitlines()[1].startswith(f"d B2[0]/dt = {K * M} B1[0]^2 [")
    assert r"\frac{d}{dt} B_{1}^{(0)}" in written.latex


def test_different_outer_layers_leave_three_scalars():
    problem = routing(6, 2)
    table = table_of(problem)
    start = equal_start(table)
    for edge in table.edges:
        if edge[1].startswith("y"):
            start[edge] = np.full(table.modes, 0.2)
    reduction = reduced_system(table, [start])
    assert [len(v.edges) for v in reduction.variables] == [6, 1, 6] * 3
    assert "B1[0]^2 - B3[0]^2" in reduction.equations().conserved or len(reduction.equations().conserved) == 6


def test_partly_shared_routing_becomes_eqs_16_and_17():
    reduction = reduced_system(*_with_start(routing(4, 4, "P=4")))
    assert [len(v.edges) for v in reduction.variables] == [16, 4] * 3
    assert reduction.equations().conserved[0] == "2 B1[0]^2 - B2[0]^2"  # sqrt(P) B1^2 - B2^2


def _with_start(problem):
    table = table_of(problem)
    return table, [equal_start(table)]


@float64
def test_lumped_and_unlumped_agree_and_conserve():
    problem = routing(4, 3)
    table, start = _with_start(problem)
    lumped, whole = reduced_system(table, start), reduced_system(table, start, lump=False)
    assert len(whole.variables) == 9 * 4
    states, apart = (one.solve(rtol=1e-9, max_steps=10_000)(TIMES) for one in (lumped, whole))
    np.testing.assert_allclose(lumped.loss(states), whole.loss(apart), rtol=1e-6, atol=1e-9)
    by_edge, by_edge_apart = lumped.spread_out(states[:, 0]), whole.spread_out(apart[:, 0])
    for edge in table.edges:
        np.testing.assert_allclose(by_edge[edge], by_edge_apart[edge], atol=1e-6)
    outer, hidden = states[:, 0, 0], states[:, 0, 1]
    np.testing.assert_allclose(4 * outer**2 - hidden**2, 3 * 0.1**2, atol=1e-8)


@float64
def test_members_of_a_class_have_equal_derivatives():
    """Brute force: any values that are equal within classes have derivatives that are equal within classes."""
    table, _ = _with_start(routing(5, 3))
    lumping = coarsest_lumping(table, None)
    random = np.random.default_rng(0)
    there = lumping.variables >= 0
    values = np.zeros(lumping.variables.shape)
    values[there] = random.normal(size=lumping.variable_count)[lumping.variables[there]]
    start = {edge: values[i] for i, edge in enumerate(table.edges)}
    whole = reduced_system(table, [start], lump=False)
    change = whole.spread_out(whole.velocity())
    rates = np.array([change[edge][0] for edge in table.edges])
    for label in range(lumping.variable_count):
        members = rates[lumping.variables == label]
        np.testing.assert_allclose(members, members[0], rtol=1e-9, atol=1e-12)
