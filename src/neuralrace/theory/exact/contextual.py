"""The contextual network of P2 (sections 4-5, appendices F and G) for any number C >= 3 of contexts.

Every item is shown in every context, with item and context as one-hot inputs. One block of targets is the
same in all contexts; another is shown in one context each, in a place of its own, zero elsewhere. A common
path that is always open learns what adds up from item and context; C contextual paths, path p open in
every context but p and seeing the items only, learn the rest. Exact under these assumptions:

- the common path descends its own loss, and the contextual paths descend that of the residual
  Y - Y_common(end): "residual" training, not joint descent on the full loss;
- each path starts aligned with its singular vectors and balanced, the C contextual paths equally strong;
- the mean over items is a mode of its own (checked), as it is in a balanced hierarchy.

The loss is the mean over the N C examples. P2 sums instead: its S and D are N C times these, its time
1/(N C) of this one at the same learning rate; S/D and every curve as a function of S t are the same.
"""

from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.errors import AssumptionError, RangeError, require_count
from neuralrace.theory.exact._checks import Numbers, Positive, RealMatrix, Times, entry_point
from neuralrace.theory.exact.two_layer import two_layer_loss, two_layer_mode, two_layer_time

MEAN_MODE_TOLERANCE = 1e-9
RANK_TOLERANCE = 1e-12


class Overlaps(NamedTuple):
    """How much two contextual paths p != j have in common."""

    inputs: float  # Sigma_x(j, p) = inputs * Sigma_x(p, p)
    outputs: float  # U_p^T U_j = outputs * I
    competition: float  # what is left of D when all paths grow alike: 1 + (C - 1) inputs * outputs


class ContextualStatistics(NamedTuple):
    """Modes of the contextual network, strongest first within each group; loss is a mean over examples."""

    contexts: int  # C
    items: int  # N
    common_singular_value: jax.Array  # s of each common mode: item modes, the mean, C - 1 context modes
    common_input_variance: jax.Array  # d
    common_kind: tuple[str, ...]  # "item", "mean" or "context"
    contextual_singular_value: jax.Array  # S(p) of each contextual mode, the same for every path p
    contextual_input_variance: jax.Array  # D(p)
    final_strength: jax.Array  # A = (C - 1) S/D, where the contextual modes end


class LearningEvents(NamedTuple):
    """Which mode is learned when, in order of time."""

    times: jax.Array  # when each mode reaches the fraction asked for
    names: tuple[str, ...]  # "common item 0", "common mean 0", "contextual 2", ...


def _contexts(contexts: int) -> int:
    return require_count("contexts", contexts, least=3)


@entry_point
def contextual_overlaps(contexts: int) -> Overlaps:
    """Return the overlaps of contextual paths: (C-2)/(C-1) for inputs and -1/(C-1) for outputs.

    Paths p and j are open together in C - 2 of the C - 1 contexts of each. The residual of path p points
    along -(e_p - 1/C) in context space, of squared length 1 - 1/C, and two such have inner product -1/C. So
    all paths together feel D/(C - 1). P2 has -1/2, -1/6 and -1/12 for C = 3, 4, 5; only the first is right.
    """
    c = _contexts(contexts)
    inputs, outputs = (c - 2) / (c - 1), -1 / (c - 1)
    return Overlaps(inputs, outputs, 1 + (c - 1) * inputs * outputs)


def _structure(name: str, value: jax.Array) -> np.ndarray:
    entries = np.asarray(value)
    if entries.shape[1] < 2:
        raise RangeError(f"{name} must have a column for each of two or more items; it had {entries.shape[1]}")
    return entries


def _check_mean_mode(gram: np.ndarray) -> None:
    """Check that the item mean is an eigenvector of the item similarity of the common targets."""
    mean = np.ones(len(gram)) / np.sqrt(len(gram))
    image = gram @ mean
    residual = float(np.linalg.norm(image - mean * (mean @ image)) / (float(np.linalg.norm(gram)) + 1e-300))
    if residual > MEAN_MODE_TOLERANCE:
        raise AssumptionError(
            "the common path has no exact modes: the mean over items must be an eigenvector of the item "
            f"similarity, and its relative residual was {residual:.3g} (at most {MEAN_MODE_TOLERANCE:g} is "
            "allowed); balance the structure so that every item has the same summed similarity to all"
        )


def _centerd_values(factor: np.ndarray) -> np.ndarray:
    """Return the singular values of a structure without its mean over items, the zero ones left out."""
    values = np.linalg.svd(factor - factor.mean(1, keepdims=True), compute_uv=False)
    return values[values > RANK_TOLERANCE * (float(np.linalg.norm(factor)) + 1e-300)]


@entry_point
def contextual_statistics(
    structure: RealMatrix, contexts: int, common_structure: RealMatrix = None
) -> ContextualStatistics:
    """Return the modes of the contextual network from its targets.

    structure H (features, items) is shown in each context in a block of its own; common_structure G is
    shown in every context (H itself if not given, as in P2 section 5; zeros for none). With h a singular
    value of H without its item mean, S = h sqrt(1 - 1/C)/(N C) and D = (C - 1)/(N C). With g^2 an
    eigenvalue of G^T G + H^T H/C, the common item modes have s = g/N and d = 1/N, the mean mode
    s = g sqrt(N + C)/(N sqrt(C)) and d = 1/N + 1/C, and the C - 1 context modes s = |H 1|/(N C) and d = 1/C.
    """
    c = _contexts(contexts)
    own = _structure("structure", structure)
    shared = own if common_structure is None else _structure("common_structure", common_structure)
    n = own.shape[1]
    if shared.shape[1] != n:
        raise RangeError(
            f"common_structure must have as many columns (items) as structure, {n}; it had {shared.shape[1]}"
        )
    factor = np.vstack([shared, own / np.sqrt(c)])
    _check_mean_mode(factor.T @ factor)
    item = _centerd_values(factor) / n
    mean_norm = np.linalg.norm(factor.sum(1)) / np.sqrt(n)
    mean = [mean_norm * np.sqrt(n + c) / (n * np.sqrt(c))] if mean_norm > RANK_TOLERANCE else []
    context_value = np.linalg.norm(own.sum(1)) / (n * c)
    context = [context_value] * (c - 1) if context_value > RANK_TOLERANCE else []
    contextual = _centerd_values(own) * np.sqrt(1 - 1 / c) / (n * c)
    variance = np.full(len(contextual), (c - 1) / (n * c))
    counts = (len(item), len(mean), len(context))
    put = jax.device_put
    return ContextualStatistics(
        contexts=c,
        items=n,
        common_singular_value=put(np.array([*item, *mean, *context])),
        common_input_variance=put(np.repeat([1 / n, 1 / n + 1 / c, 1 / c], counts)),
        common_kind=("item",) * counts[0] + ("mean",) * counts[1] + ("context",) * counts[2],
        contextual_singular_value=put(contextual),
        contextual_input_variance=put(variance),
        final_strength=put((c - 1) * contextual / variance),
    )


@entry_point
def contextual_mode(
    times: Any, singular_value: Any, input_variance: Positive, contexts: int, initial_strength: Any
) -> jax.Array:
    """Return the strength B(t) of a contextual mode: A / (1 - (1 - A/B0) e^(-2 S t)), A = (C - 1) S/D.

    singular_value S and input_variance D are those of one path, initial_strength B0; P2 appendices F and G
    with sign and constant set right. The same curve as a two-layer mode with D/(C - 1) for D.
    """
    return two_layer_mode(times, singular_value, input_variance / (_contexts(contexts) - 1), initial_strength)


@entry_point
def contextual_loss(
    times: Times, statistics: ContextualStatistics, common_strength: Any, contextual_strength: Any
) -> jax.Array:
    """Return the loss of the whole network, common and contextual modes summed.

    times may have any shape; common_strength pi_0 and contextual_strength B0 are one number or one per
    mode. What the common path has yet to learn and what the contextual paths have are orthogonal over the
    examples, so the losses add: half d (s/d - pi)^2 per common mode and (A - B)^2 / (2 N) per contextual one.
    """
    t = times[..., None]
    common = two_layer_loss(t, statistics.common_singular_value, statistics.common_input_variance, common_strength)
    value, final = statistics.contextual_singular_value, statistics.final_strength
    # A two-layer mode with d = S/A; its loss S (A - B)^2/(2A) is rescaled to the (A - B)^2/(2N) of the paths.
    residual = two_layer_loss(t, value, value / final, contextual_strength) * final / (value * statistics.items)
    return common.sum(-1) + residual.sum(-1)


@entry_point
def contextual_events(
    statistics: ContextualStatistics,
    common_strength: Any,
    contextual_strength: Any,
    fraction: Annotated[Any, Numbers(above=0.0)] = 0.5,
) -> LearningEvents:
    """Return the order and the times at which common and contextual modes are learned to a fraction.

    Arguments as in `contextual_loss`; fraction of the final strength, in (0, 1). A mode that starts past
    it has time zero.
    """
    if float(fraction) >= 1:
        raise RangeError(f"fraction must be below 1, which takes for ever; it was {float(fraction):g}")
    s, d = statistics.common_singular_value, statistics.common_input_variance
    common = two_layer_time(fraction * s / d, s, d, common_strength)
    value, final = statistics.contextual_singular_value, statistics.final_strength
    contextual = two_layer_time(fraction * final, value, value / final, contextual_strength)
    times = np.concatenate([np.atleast_1d(common), np.atleast_1d(contextual)])
    kinds = statistics.common_kind
    names = [f"common {kind} {kinds[:i].count(kind)}" for i, kind in enumerate(kinds)]
    names += [f"contextual {i}" for i in range(len(contextual))]
    order = np.argsort(times, kind="stable")
    return LearningEvents(jnp.asarray(times[order]), tuple(names[i] for i in order))
