"""P2 Fig 4: a contextual task in ReLU networks, and the gated network of four modules that learns like them."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, reln, tasks
from neuralrace.analysis import Agreement, Line, agreement, similarity
from neuralrace.analysis.mds import aligned_mds
from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.plotting import SERIES, heat_map, label_axes, loss_axis, new_figure, theory_line, training_band
from neuralrace.tasks import NamedTask
from neuralrace.training import ReLUNetwork, train

PUBLISHED = {"normalised_l1": 0.043, "log10_gap": 0.110}  # of the published gated network, one ReLU network
MODULES = 4


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper, whose loss is a sum over the 24 examples: its rate is multiplied by their number."""

    seeds: int = 10
    hidden: int = 700
    paper_rate: float = 0.001
    std: float = 0.005 / 700
    steps: int = 8000
    every: int = 50
    gated_seeds: int = 2
    moments: tuple[int, ...] = (400, 1000, 2000, 3000, 4000, 6000, 8000)


def compute(settings: Settings) -> xarray.Dataset:
    """Train ReLU networks, find their modules, forecast in one and in two stretches, and race the gatings."""
    named = tasks.contextual(3, "mixed")
    rate = settings.paper_rate * len(named.task)
    law, network = initial.gaussian(settings.std), ReLUNetwork(named.task, hidden=(settings.hidden,))
    run = train(network, law, rate, settings.steps, seeds=settings.seeds, record="gate_patterns", every=settings.every)
    found = reln.discover(run, MODULES, draws=settings.gated_seeds)
    staged = reln.staged_reconstruction(run, found)
    data = xarray.Dataset(coords={"time": run.time})
    data["relu"] = (("seed", "time"), run.loss)
    data["one_stretch"] = ("time", found.reconstruction.loss if found.reconstruction else run.loss[0])
    data["two_stretches"] = (("seed", "time"), staged.loss)
    data["patterns"] = (("module", "example"), found.patterns)
    data["context"] = ("example", named.groups["context"])
    data["handover"] = ((), rate * staged.handover)
    return xarray.merge([data, _detail(settings, named, rate)])


def _detail(settings: Settings, named: NamedTask, rate: float) -> xarray.Dataset:
    """Outputs and hidden similarity of one ReLU network and of the trained gated network, joint and residual."""
    law, moments = initial.gaussian(settings.std), [m for m in settings.moments if m <= settings.steps]
    network = ReLUNetwork(named.task, hidden=(settings.hidden,))
    relu = train(network, law, rate, settings.steps, record=("outputs", "activity"), at=moments)
    width = settings.hidden // MODULES
    problem = named.problem("common + all-but-one", hidden=width)
    joint = train(
        problem,
        law,
        rate,
        settings.steps,
        seeds=settings.gated_seeds,
        record=("outputs", "activity", "path_singular_values"),
        every=settings.every,
    )
    strengths = [joint.values(f"path_singular_values[{path}]")[0] for path in problem.architecture.paths()]
    places = np.searchsorted(joint.data["step"].values, moments)
    hidden = np.concatenate([joint.values(f"activity[{n}]")[0, places] for n in problem.architecture.hidden], axis=-1)
    separate = named.problem("common + all-but-one, items only", hidden=width)
    residual = train(
        separate,
        law,
        rate,
        settings.steps,
        seeds=settings.gated_seeds,
        coupling="residual",
        every=settings.every,
    )
    activity = relu.values("activity[h1]")[0]
    return xarray.Dataset(
        {
            "relu_output": (("moment", "example", "property"), relu.values("outputs[y]")[0]),
            "gated_output": (("moment", "example", "property"), joint.values("outputs[y]")[0, places]),
            "relu_similarity": (("moment", "example", "other"), np.array([similarity(a) for a in activity])),
            "gated_similarity": (("moment", "example", "other"), np.array([similarity(a) for a in hidden])),
            "relu_points": (("moment", "example", "axis"), aligned_mds(activity).points),
            "gated_points": (("moment", "example", "axis"), aligned_mds(hidden).points),
            "joint": (("gated_seed", "time"), joint.loss),
            "singular_values": (("pathway", "time", "mode"), np.array(strengths)),
            "residual": (("gated_seed", "time"), residual.loss),
        },
        coords={"moment": moments, "time": joint.time},
    )


def apart(data: xarray.Dataset, name: str) -> Agreement:
    """The distance of a curve from the mean ReLU network."""
    time = data["time"].values
    return agreement(Line(time, data[name].values), Line(time, data["relu"].values))


def _written(found: Agreement) -> str:
    return f"normalised L1 {found.normalised_l1:.3f}, log10 gap {found.log10_gap:.3f}"


def correlations(data: xarray.Dataset, kind: str) -> np.ndarray:
    """Per moment, the correlation between ReLU and gated network."""
    pairs = zip(data[f"relu_{kind}"].values, data[f"gated_{kind}"].values, strict=True)
    return np.array([np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in pairs])


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the figure says."""
    two, one, joint, residual = (apart(data, name) for name in ("two_stretches", "one_stretch", "joint", "residual"))
    contexts = data["context"].values
    wanted = {tuple(np.ones(len(contexts), dtype=bool)), *(tuple(contexts != c) for c in range(3))}
    outputs, hidden = correlations(data, "output"), correlations(data, "similarity")
    return [
        Claim(
            "The modules are one that is always open and three that are open in two contexts each.",
            "P2 section 4 and Fig 8",
            "paper",
            "the four clusters have exactly these patterns",
            "; ".join("".join(str(int(bit)) for bit in row) for row in data["patterns"].values),
            {tuple(row) for row in data["patterns"].values} == wanted,
        ),
        Claim(
            "From the modules found, with strengths from early weights, the loss of the ReLU networks is forecast.",
            "P2 Fig 4a",
            "paper",
            f"normalised L1 at most 0.05 and log10 gap at most 0.15 (published network: {PUBLISHED['normalised_l1']}, "
            f"{PUBLISHED['log10_gap']}, with constants set by hand)",
            f"{_written(two)}; one pathway up to time {float(data['handover']):.1f}, four from there",
            two.normalised_l1 <= 0.05 and two.log10_gap <= 0.15,
        ),
        Claim(
            "One gating that is constant from the start describes the ReLU networks.",
            "P2 section 4",
            "paper",
            "normalised L1 at most 0.05 and log10 gap at most 0.15 from the ReLU networks' own law of initial weights",
            f"forecast {_written(one)}; trained jointly {_written(joint)}",
            one.normalised_l1 <= 0.05 and one.log10_gap <= 0.15,
            "refuted: about 0.07 and 0.27; a gating that changes once, from the weights of that moment, comes nearer",
        ),
        Claim(
            "Training the contextual pathways on the residual of the common one, as published, does the same.",
            "P2 appendix F",
            "paper",
            "normalised L1 at most 0.05 from equal initial scales",
            _written(residual),
            residual.normalised_l1 <= 0.05,
            "refuted: about 0.07, no better than joint training from the same scales; the paper sets scales by hand",
        ),
        Claim(
            "ReLU and gated network have the same outputs throughout.",
            "P2 Fig 4a",
            "paper",
            "correlation over examples and properties at least 0.95 at every moment shown",
            ", ".join(f"{value:.3f}" for value in outputs),
            bool(outputs.min() >= 0.95),
        ),
        Claim(
            "ReLU and gated network have the same latent representation throughout.",
            "P2 Fig 4c",
            "paper",
            "correlation of the hidden similarities of all pairs of examples at least 0.95 at every moment shown",
            ", ".join(f"{value:.3f}" for value in hidden),
            bool(hidden.min() >= 0.95),
            "refuted: the correlation falls from 0.99 to 0.85 in the course of training",
        ),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """Losses, singular values, modules, the difference of outputs half way, and both hidden representations."""
    figure, axes = new_figure(3, rows=2, width=4.6)
    time = data["time"].values
    training_band(axes[0, 0], time, data["relu"].values, "relu", "ReLU networks")
    training_band(axes[0, 0], time, data["joint"].values, "gated", "gated, joint")
    training_band(axes[0, 0], time, data["residual"].values, "linear", "gated, residual")
    theory_line(axes[0, 0], time, data["two_stretches"].values.mean(axis=0), "theory, two stretches")
    theory_line(axes[0, 0], time, data["one_stretch"].values, "theory, one stretch", dotted=True)
    loss_axis(axes[0, 0], "a  mixed contexts")
    for pathway, values in enumerate(data["singular_values"].values):
        axes[0, 1].plot(time, values, color=SERIES[pathway], linewidth=0.8)
        axes[0, 1].plot([], [], color=SERIES[pathway], label="common" if not pathway else f"all but context {pathway}")
    label_axes(axes[0, 1], "b  pathways, trained jointly", "time t (learning rate x step)", "singular value")
    heat_map(
        axes[0, 2],
        data["patterns"].values * 1.0,
        "modules found",
        horizontal="example",
        vertical="module",
        value="gate",
    )
    middle = data.sizes["moment"] // 2
    for row, (name, title) in enumerate((("relu", "ReLU network"), ("gated", "gated network"))):
        axis = axes[1, row]
        for context in np.unique(data["context"].values):
            chosen = data[f"{name}_points"].values[:, data["context"].values == context]
            axis.plot(chosen[..., 0], chosen[..., 1], color=SERIES[context], linewidth=0.7)
            axis.plot(chosen[-1, :, 0], chosen[-1, :, 1], ".", color=SERIES[context], label=f"context {context + 1}")
        label_axes(axis, f"c  hidden layer over time, {title}", "first axis", "second axis")
    error = (data["relu_output"] - data["gated_output"]).values[middle]
    heat_map(
        axes[1, 2],
        error.T,
        "ReLU minus gated output, half way",
        horizontal="context",
        vertical="block",
        value="difference",
        blocks=(15, 8),
    )
    return figure


EXPERIMENT = Experiment(
    name="jarvis2025-fig4",
    title="Mixed contexts: four modules and their forecast",
    source="P2 Fig 4",
    full=Settings(),
    tiny=Settings(
        seeds=1,
        hidden=40,
        paper_rate=0.002,
        std=0.01,
        steps=100,
        every=20,
        gated_seeds=1,
        moments=(40, 100),
    ),
    compute=compute,
    claims=claims,
    draw=draw,
)
