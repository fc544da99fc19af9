import numpy as np
import pytest

from neuralrace.errors import AssumptionError, RangeError
from neuralrace.theory.exact import Contextual

HIERARCHY = np.vstack([np.ones(4), np.kron(np.eye(2), np.ones(2)), np.eye(4)])  # 7 features, 4 items
ITEMS = 4


def data(contexts: int) -> tuple[np.ndarray, ...]:
    """Inputs, targets and context of every example, in rows, as FACTS describes the data set."""
    inputs, targets, shown = [], [], []
    for c in range(contexts):
        for i in range(ITEMS):
            inputs.append(np.concatenate([np.eye(ITEMS)[i], np.eye(contexts)[c]]))
            targets.append(np.concatenate([HIERARCHY[:, i], np.kron(np.eye(contexts)[c], HIERARCHY[:, i])]))
            shown.append(c)
    return np.array(inputs), np.array(targets), np.array(shown)


def residual(contexts: int) -> np.ndarray:
    inputs, targets, _ = data(contexts)
    return targets - inputs @ np.linalg.lstsq(inputs, targets, rcond=None)[0]


def gates(contexts: int) -> np.ndarray:
    return data(contexts)[2] != np.arange(contexts)[:, None]  # path p is closed in context p only


@pytest.mark.parametrize("contexts", [3, 4, 5, 8])
def test_overlaps_are_those_of_the_data(contexts):
    """U_p^T U_j = -1/(C-1): -1/2, -1/3, -1/4; appendix G prints -1/6 and -1/12 for C = 4 and 5."""
    items = data(contexts)[0][:, :ITEMS]
    rest, gate = residual(contexts), gates(contexts)
    count = len(items)
    correlation = [rest.T @ (g[:, None] * items) / count for g in gate]
    # U_0 S V^T and U_1 S V^T share V, so the product is V S (U_0^T U_1) S V^T
    product = correlation[0].T @ correlation[1]
    singular = np.linalg.svd(correlation[0], compute_uv=False)[: ITEMS - 1]
    shared, outputs = (contexts - 2) / (contexts - 1), -1 / (contexts - 1)
    spectrum = np.sort(np.linalg.eigvalsh(product))[: ITEMS - 1]
    np.testing.assert_allclose(spectrum, np.sort(outputs * singular**2), rtol=1e-12)
    inputs = [items.T @ ((gate[0] & other)[:, None] * items) / count for other in gate[:2]]
    np.testing.assert_allclose(inputs[1], shared * inputs[0], atol=1e-16)
    # what is left of D when all paths grow alike: the closed form has D/(C - 1)
    assert 1 + (contexts - 1) * shared * outputs == pytest.approx(1 / (contexts - 1))


@pytest.mark.parametrize(
    ("contexts", "printed", "comes_to", "used"), [(4, -1 / 6, 2 / 3, 1 / 3), (5, -1 / 12, 3 / 4, 1 / 4)]
)
def test_printed_overlaps_do_not_add_up_to_the_printed_result(contexts, printed, comes_to, used):
    """Appendix G: 1 - 3 (2/3)(1/6) = 2/3 and 1 - 4 (3/4)(1/12) = 3/4, not the 1/3 and 1/4 that it goes on with."""
    shared = (contexts - 2) / (contexts - 1)
    assert 1 + (contexts - 1) * shared * printed == pytest.approx(comes_to, rel=1e-12)  # rounding
    assert 1 - (contexts - 1) * shared / (contexts - 1) == pytest.approx(used, rel=1e-12)


@pytest.mark.parametrize("contexts", [3, 5])
def test_statistics_are_those_of_the_data(contexts):
    found = Contextual(HIERARCHY, contexts)
    inputs, targets, _ = data(contexts)
    _, s, v = np.linalg.svd(targets.T @ inputs / len(inputs))
    common = found.common
    rank = len(common.singular_value)
    order = np.argsort(-common.singular_value, kind="stable")
    np.testing.assert_allclose(common.singular_value[order], s[:rank], rtol=1e-13)
    assert np.all(s[rank:] < 1e-15)
    variance = [row @ (inputs.T @ inputs / len(inputs)) @ row for row in v[:rank]]
    # equal singular values of two kinds would mix their variances; here there are none
    np.testing.assert_allclose(common.input_variance[order], variance, rtol=1e-12)
    items, rest = inputs[:, :ITEMS], residual(contexts)
    for gate in gates(contexts):
        own = np.linalg.svd(rest.T @ (gate[:, None] * items) / len(items), compute_uv=False)
        np.testing.assert_allclose(found.contextual.singular_value, own[: ITEMS - 1], rtol=1e-12)
        felt = (contexts - 1) * found.contextual.input_variance  # all paths together feel D/(C - 1)
        np.testing.assert_allclose(items.T @ (gate[:, None] * items) / len(items), felt * np.eye(ITEMS), atol=1e-16)


def aligned(correlation: np.ndarray, strength: float, rank: int) -> tuple[np.ndarray, np.ndarray]:
    u, _, v = np.linalg.svd(correlation)
    root = np.sqrt(strength) * np.eye(rank)
    return root @ v[:rank], u[:, :rank] @ root


@pytest.mark.parametrize("contexts", [3, 4])
def test_loss_is_that_of_the_network_itself(contexts, integrate):
    """The matrix flow of common and contextual paths, residual training, from aligned balanced weights."""
    inputs, targets, _ = data(contexts)
    items, rest, gate = inputs[:, :ITEMS], residual(contexts), gates(contexts)
    count = len(inputs)
    b0, pi0 = 1e-3, 1e-4
    network = Contextual(HIERARCHY, contexts, pi0, b0)
    paths = [aligned(rest.T @ (g[:, None] * items) / count, b0, ITEMS - 1) for g in gate]
    # the same input vectors in each path, as the reduction wants: those of path 0, its outputs permuted
    first = paths[0][0]
    seconds = [rest.T @ (g[:, None] * items) / count @ first.T for g in gate]
    paths = [(first, np.sqrt(b0) * w / np.linalg.norm(w, axis=0)) for w in seconds]
    common = aligned(targets.T @ inputs / count, pi0, len(network.common.singular_value))
    weights = [*common, *(w for path in paths for w in path)]
    shapes = [w.shape for w in weights]
    cuts = np.cumsum([w.size for w in weights])[:-1]

    def split(state):
        return [part.reshape(shape) for part, shape in zip(np.split(state, cuts), shapes, strict=True)]

    def contextual(parts):
        outputs = [g[:, None] * (items @ w1.T @ w2.T) for g, w1, w2 in zip(gate, parts[::2], parts[1::2], strict=True)]
        return sum(outputs)

    def field(_, state):
        parts = split(state)
        error = (targets - inputs @ parts[0].T @ parts[1].T).T @ inputs / count
        slopes = [parts[1].T @ error, error @ parts[0].T]
        left = rest - contextual(parts[2:])
        for p, g in enumerate(gate):
            w1, w2 = parts[2 + 2 * p : 4 + 2 * p]
            error = left.T @ (g[:, None] * items) / count
            slopes += [w2.T @ error, error @ w1.T]
        return np.concatenate([slope.ravel() for slope in slopes])

    times = np.array([0.0, 5.0, 12.0, 20.0, 40.0, 60.0, 90.0, 150.0])
    states = integrate(field, np.concatenate([w.ravel() for w in weights]), times)
    losses, strengths = [], []
    for state in states:
        parts = split(state)
        whole = inputs @ parts[0].T @ parts[1].T + contextual(parts[2:])
        losses.append(0.5 * np.sum((targets - whole) ** 2) / count)
        strengths.append(np.linalg.svd(parts[3] @ parts[2], compute_uv=False)[: ITEMS - 1])
    # rounding can turn the paths apart where they race; over this time it stays below 1e-8
    np.testing.assert_allclose(network.loss(times), losses, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(np.sort(network.strength(times)[1])[:, ::-1], strengths, rtol=1e-7)


def test_printed_closed_form_is_refuted():
    """P2 appendix F prints (2S/D)/(1 - (1 - S/(D B0)) e^(+2St)): not B0 at t = 0, and zero in the end."""
    network, b0 = Contextual(HIERARCHY, 3, 1e-2, 1e-2), 1e-2
    s, d = network.contextual.singular_value[0], 2 * network.contextual.input_variance

    def printed(t):
        return (2 * s / d) / (1 - (1 - s / (d * b0)) * np.exp(2 * s * t))

    assert printed(0.0) == pytest.approx(2 * b0)
    assert abs(printed(1e3)) < 1e-50
    found = network.strength([0.0, 1e6])[1][:, 0]
    np.testing.assert_allclose(found, [b0, 2 * s / d])


def test_bad_arguments_are_named():
    with pytest.raises(AssumptionError, match=r"mean over items must be an eigenvector.*residual was 0\.\d+"):
        Contextual(np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]), 3)
    with pytest.raises(RangeError, match=r"contexts must be a whole number, at least 3; it was 2"):
        Contextual(HIERARCHY, 2)
    with pytest.raises(RangeError, match=r"structure must be a matrix with a column for each"):
        Contextual(np.ones((3, 1)), 3)
    with pytest.raises(RangeError, match=r"contextual_strength must be finite and above 0"):
        Contextual(HIERARCHY, 3, 0.1, 0.0)


def test_joint_descent_is_another_flow():
    """While the common path is unlearned its targets drive the contextual paths: the residual's S is not theirs."""
    contexts = 3
    inputs, targets, _ = data(contexts)
    items, gate = inputs[:, :ITEMS], gates(contexts)[0]
    joint = np.linalg.svd(targets.T @ (gate[:, None] * items) / len(items), compute_uv=False)
    alone = Contextual(HIERARCHY, contexts).contextual.singular_value
    assert joint[0] > 2 * alone[0]
