"""P2 Fig 4: a contextual task in ReLU networks, and the gated network of four modules that should learn like them."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, apart, enumerated, panels
from neuralrace.papers.jarvis2025 import _contextual as p2


@dataclass(frozen=True)
class Settings(p2.ContextualSettings):
    """gated_seeds: gated networks of each kind. moments: epochs for comparing networks."""

    seeds: int = 10
    every: int = 50
    gated_seeds: int = 2
    moments: tuple[int, ...] = (400, 1000, 2000, 3000, 4000, 6000, 8000)


full, tiny = Settings(), Settings.tiny(steps=100, gated_seeds=1, moments=(40, 100))


def compute(settings: Settings) -> xarray.Dataset:
    """Train ReLU networks and gated ones, find modules, and forecast the pathways of the gated ones."""
    named, seeds = nr.tasks.contextual(3, "mixed"), settings.gated_seeds
    run = settings.relu(named.task, record="gate_patterns")
    found = nr.reln.find_modules(nr.reln.gate_samples(run, every=max(1, (len(run.time) - 1) // 80)), 4)
    data = xarray.Dataset({"context": ("example", named.groups["context"])}, coords={"time": run.time})
    data["relu"] = (("seed", "time"), run.loss)
    data["patterns"] = (("module", "example"), found.patterns)
    data["consistency"] = ("module", found.consistency)
    appendix = settings.appendix_h
    data["appendix"] = (("gated_seed", "time"), appendix.protocol(named, p2.GATING, seeds=seeds)[1].loss)
    data["appendix_relu"] = (("gated_seed", "time"), appendix.relu(named.task, seeds=seeds).loss)
    wanted = ("outputs", "activity", "path_singular_values")
    published = settings.protocol(named, p2.EVERY_MODULE, 2.0, record=wanted, seeds=seeds)
    data["protocol"] = (("gated_seed", "time"), published[1].loss)
    # outputs and hidden layers of one ReLU network and of one gated network
    moments = [m for m in settings.moments if m <= settings.steps]
    relu = settings.relu(named.task, record=wanted[:2], seeds=1, at=moments)
    for name, one, hidden in (("relu", relu, ("h1",)), ("protocol", published[1], published[0].architecture.hidden)):
        places = np.searchsorted(one.data["step"].values, moments)
        activity = np.concatenate([one.values(f"activity[{node}]")[0, places] for node in hidden], axis=-1)
        alike = np.array([nr.analysis.similarity(a) for a in activity])
        data[f"{name}_output"] = (("moment", "example", "property"), one.values("outputs[y]")[0, places])
        data[f"{name}_similarity"] = (("moment", "example", "other"), alike)
        data[f"{name}_points"] = (("moment", "example", "axis"), nr.analysis.aligned_mds(activity))
    # singular values of the pathways: as published, and as appendix F has them, simulated and by the race reduction:
    # the common pathway learns alone and the others learn what it leaves at the end
    modes, aligned = named.task.inputs["x"].shape[1], nr.theory.Aligned(diagonal=False)
    values = p2.by_pathway("published", p2.trained_values(*published), modes)
    nodes = {"x": modes, "common": settings.width, "y": named.task.targets["y"].shape[1]}
    alone = nr.Problem(nr.Architecture(nodes, [("x", "common"), ("common", "y")]), named.task)
    for problem in (alone, p2.on_what_is_left(named, settings.width)):
        run = settings.train(problem, record=wanted[2], seeds=seeds)
        forecast = nr.predict(problem, nr.initial.gaussian(settings.std), run.time, aligned, draws=1, key=p2.THEORY_KEY)
        values |= p2.by_pathway("simulated", p2.trained_values(problem, run), modes)
        values |= p2.by_pathway("race", p2.forecast_values(forecast), modes)
    data = data.assign({name: (("time", "mode"), array) for name, array in values.items()})
    return data.assign_coords(moment=moments)


def correlations(data: xarray.Dataset, kind: str) -> np.ndarray:
    """Per moment, the correlation between the ReLU network and the gated one."""
    pairs = zip(data[f"relu_{kind}"].values, data[f"protocol_{kind}"].values, strict=True)
    return np.array([np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in pairs])


def claims(data: xarray.Dataset) -> Claims:
    claim, wanted = Claims(retired=(4, 5, 6)), p2.text_patterns(data["context"].values)
    claim.paper(
        "P2 section 4 and appendix B (the exact gating pattern emerges with 4 clusters)",
        "The ReLU network has four modules: one that is always active and three that are active for two out of the "
        "three contexts.",
        "A",
    )
    what = f"of the {len(wanted)} patterns, found by as many clusters,"
    claim.at_least(what, len(p2.as_set(data["patterns"].values) & wanted), len(wanted))
    claim.detail(f"consistency {enumerated(data['consistency'].values)}")
    text = "The gated network, whose gating is constant from the start, has the loss of the ReLU networks."
    claim.paper("P2 section 4 and Fig 4a, as published", text, "a")
    p2.same_losses(claim, apart(data["time"].values, data["protocol"].values, data["relu"].values))
    text = (
        "As long as the ReLU network and GDLN begin with the same hyper-parameters the mapping to a ReLN will be valid "
        "(assuming the correct allocation of linear pathways)."
    )
    claim.paper("P2 appendix H, from its initial weights of 1e-7", text, "a")
    p2.same_losses(claim, apart(data["time"].values, data["appendix"].values, data["appendix_relu"].values))
    claim.fails("with one scale for all pathways the gated network falls behind once the common pathway has learned")
    both, what = "ReLU and gated network (as published)", "correlation at the moments shown"
    source = "P2 Fig 4a (caption: exact agreement between these output samples)"
    claim.paper(source, f"{both} agree in their outputs throughout.", "B")
    claim.at_least(what, correlations(data, "output"), 0.99, form=".3f")
    claim.paper("P2 Fig 4c (caption)", f"{both} have an equivalent latent representation at all times.", "c")
    what = "correlation of hidden similarities at the moments shown"
    claim.at_least(what, correlations(data, "similarity"), 0.95, form=".3f")
    claim.fails("the correlation falls to 0.93 in the course of training")
    text = "The singular values of the gated network follow the neural race reduction."
    claim.paper("P2 Fig 4b and appendix F (contextual pathways on the residual of the trained common one)", text, "b")
    gaps = {kind: p2.value_gap(data, "race", "simulated", kind) for kind in p2.KINDS}
    claim.at_most("normalized L1 over all singular values,", gaps, p2.L1, form=".3f")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """Losses, singular values, hidden representations in one plane, modules, and the difference of outputs half way."""
    figure, (loss, *values, points, modules, outputs) = panels("a", "b", "b", "c", "A", "B", height=3.8)
    time, heat_map = data["time"].values, nr.plotting.heat_map
    trained = {"ReLU networks": ("relu", data["relu"].values)}
    trained |= {"gated, as published": ("linear", data["protocol"].values)}
    gap = apart(time, data["protocol"].values, data["relu"].values).normalized_l1
    title = f"the published gated network's loss is {100 * gap:.1f} % off"
    nr.plotting.loss_curves(loss, title, time, trained, tolerance=p2.LOG10)
    for axis, kind in zip(values, p2.KINDS, strict=True):
        trained = {
            "training, as published": ("linear", data[f"published_{kind}"].values),
            "training, appendix F": ("gated", data[f"simulated_{kind}"].values),
        }
        nr.plotting.mode_lines(axis, time, trained, {"theory, race reduction": data[f"race_{kind}"].values})
        ways = "trained either way" if kind == "common" else "trained as in appendix F"
        title = f"{kind} pathways {ways} are as forecast"
        nr.plotting.label_axes(axis, title, nr.plotting.TIME, "singular value")
    # the hidden representations over time, those of the gated network turned onto the others (Procrustes)
    onto, own, context = data["relu_points"].values, data["protocol_points"].values, data["context"].values
    turned = own @ nr.analysis.rotation_onto(own.reshape(-1, 2), onto.reshape(-1, 2))
    turned *= np.sum(onto * turned) / np.sum(turned**2)  # the best size as well
    for places, opacity, mark, network in ((turned, 0.4, "x", "gated"), (onto, 1.0, ".", "ReLU")):
        for one in np.unique(context):
            chosen, color = places[:, context == one], nr.plotting.SERIES[one]
            points.plot(chosen[..., 0], chosen[..., 1], color=color, linewidth=0.8, alpha=opacity)
            end = points.plot(*chosen[-1].T, mark, color=color, markersize=5)
            end[0].set_label(f"{network}, context {one + 1}")
    title = f"hidden layers drift apart, to a correlation of {correlations(data, 'similarity').min():.2f}"
    nr.plotting.label_axes(points, title, "first axis of one plane", "second axis")
    title = "the modules found are those of the paper"
    heat_map(modules, data["patterns"].values * 1.0, title, "context", "module", "gate", blocks=(1, 8))
    error = (data["relu_output"] - data["protocol_output"]).values[data.sizes["moment"] // 2]
    title = "outputs agree: ReLU less gated network, half way"
    largest = float(abs(data["relu_output"]).max())
    heat_map(outputs, error.T, title, "context", "block", "difference", blocks=(15, 8), largest=largest)
    return figure
