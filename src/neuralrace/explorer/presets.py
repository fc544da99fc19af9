"""Ready-made scenes: one per task, one per figure of the papers, and five guided ones."""

from collections.abc import Mapping
from typing import Any

from neuralrace.explorer.bounds import BODY_BYTES, MAP_VALUES, SCENE, TASKS
from neuralrace.explorer.scene import Scene
from neuralrace.papers.registry import FIGURES
from neuralrace.plotting.style import COLORS, SERIES

Fields = dict[str, Any]


def _scene(task: str, settings: Fields | None = None, **rest: Any) -> Fields:
    return {"task": task, "settings": settings or {}, **rest}


# where a visitor starts who chooses a task
STARTS: Mapping[str, Fields] = {
    "xor": _scene("xor", gating="xor", width=32, scale=2e-4, rate=0.1, steps=400),
    "hierarchy": _scene("hierarchy", {"levels": 4}, scale=1e-3, rate=0.1, steps=1200),
    "semantic": _scene("semantic", width=32, scale=1e-3, rate=0.1, steps=700),
    "contextual": _scene("contextual", {"contexts": 3}, gating="common + all-but-one", scale=1e-3, rate=0.1, steps=900),
    "contextual_classification": _scene("contextual_classification", gating="context", scale=0.01, rate=0.2, steps=600),
    "routing": _scene(
        "routing", {"domains": 4, "trained": 2}, depth=3, law="orthogonal", scale=0.2, rate=0.05, steps=300, width=16
    ),
    "views": _scene("views", {"presence": "all"}, gating="views", width=8, scale=0.01, rate=0.1, steps=400),
    "digits": _scene("digits", {"examples": 200}, scale=1e-3, rate=0.05, steps=3000),
    "table": _scene("table", scale=1e-2, rate=0.05, steps=1000),
}
FIRST = Scene.read(STARTS["hierarchy"])

_CONTEXTS: Fields = {"gating": "common + all-but-one", "width": 32, "scale": 7e-6, "rate": 0.1, "steps": 2000}
_RELU: Fields = {"network": "relu", "width": 128, "scale": 5e-4, "rate": 0.1, "steps": 2000, "seeds": 2}
_MIXED: Fields = {"contexts": 3, "structure": "mixed"}
_ROUTED: Fields = {"gating": "shared", "depth": 3, "law": "orthogonal"}
_IMAGES: Fields = _ROUTED | {"width": 16, "scale": 0.3, "rate": 0.2, "steps": 1500, "seeds": 2}


def _images(trained: int, **rest: Any) -> Fields:
    return _scene("routing", {"domains": 5, "trained": trained, "items": "digits"}, **(_IMAGES | rest))


_SMALLER = (
    "50 digits from any of five domains to any of five, by the squared error on these images; the figure has more "
    "domains and images, cross-entropy and test errors."
)
_VIEWS: Fields = {"gating": "views", "width": 8, "scale": 0.05, "rate": 0.1, "steps": 500}

# experiment -> its scene, and where that is smaller than the experiment
PRESETS: Mapping[str, tuple[Fields, str]] = {
    "saxe2022-fig3": (_scene("xor", gating="xor", width=32, scale=2e-4, rate=0.4, steps=100, seeds=10), ""),
    "saxe2022-linear": (_scene("semantic", width=32, scale=1e-3, rate=0.1, steps=700, seeds=10), ""),
    "saxe2022-contextual": (
        _scene("contextual_classification", gating="context", width=16, scale=0.01, rate=0.2, steps=600, seeds=10),
        "",
    ),
    "saxe2022-fig4": (
        _scene("routing", {"domains": 7, "trained": 4}, width=64, scale=0.2, **_ROUTED)
        | {"rate": 0.16, "steps": 500, "seeds": 2},
        "two networks where the figure has ten",
    ),
    "saxe2022-fig5": (
        _scene("routing", {"domains": 3, "trained": 3}, width=8, **(_ROUTED | {"gating": "shared + P=1"}))
        | {"scale": 0.1, "rate": 0.1, "steps": 400, "seeds": 2},
        "three domains where the figure has ten",
    ),
    "saxe2022-fig6": (
        _scene("routing", {"domains": 7, "trained": 4}, width=64, scale=1.0, **_ROUTED)
        | {"rate": 0.048, "steps": 700, "seeds": 2},
        "one scale of six; move the slider for the others",
    ),
    "saxe2022-fig7": (_images(3), f"{_SMALLER} Three of five routes are trained, and those that are not follow"),
    "saxe2022-fig8": (_images(2), f"{_SMALLER} Two of five routes are too few; move the slider for others"),
    "saxe2022-fig9": (_images(3, network="relu"), f"{_SMALLER} ReLU where the figure has a slope of 0.01"),
    "saxe2022-fig10": (
        _images(3, scale=1.5, rate=0.05),
        f"{_SMALLER} Too large a scale; move the slider for others",
    ),
    "jarvis2025-fig2": (
        _scene("xor", {"delta": 0.8}, network="relu", width=128, scale=1.77e-5, rate=0.4, steps=250),
        "one margin of eleven; move the slider for the others",
    ),
    "jarvis2025-fig3": (_scene("contextual", _MIXED, **_RELU), "128 neurons where the figure has 700, larger steps"),
    "jarvis2025-fig4": (_scene("contextual", _MIXED, **_CONTEXTS), "the gated network, with larger steps"),
    "jarvis2025-fig5": (_scene("contextual", {"contexts": 4}, **_CONTEXTS), "four contexts, with larger steps"),
    "jarvis2025-fig6": (
        _scene("contextual", {"contexts": 3}, **(_RELU | {"depth": 3, "width": 64, "scale": 0.01, "seeds": 1})),
        "64 neurons a layer where the figure has 420, a larger first scale",
    ),
    "jarvis2025-fig8": (_scene("contextual", _MIXED, **_RELU), "128 neurons where the figures have 700"),
    "jarvis2025-race": (
        _scene("contextual", _MIXED, **(_CONTEXTS | {"gating": "common + all-but-one + single"})),
        "both kinds of contextual pathways in one network",
    ),
    "jarvis2025-proposition": (
        _scene("contextual", _MIXED, **(_CONTEXTS | {"gating": "common + single"})),
        "one of the gatings that are compared",
    ),
    "jarvis2025-fidelity": (_scene("contextual", _MIXED, **_RELU), "the ReLU network that is taken apart there"),
    "modules-foreseen": (_scene("contextual", {"contexts": 3}, **_RELU), "one of the tasks whose modules are foreseen"),
    "pairs": (
        _scene("routing", {"domains": 7, "trained": 3}, width=16, scale=0.1, **_ROUTED)
        | {"rate": 0.1, "steps": 500, "seeds": 2},
        "neighboring pairs, one of the choices that are compared",
    ),
    "views-law": (_scene("views", **_VIEWS), "three views that occur together"),
    "views-gated": (
        _scene("views", {"presence": "chance", "probability": 0.8}, **_VIEWS),
        "one chance of several; move the slider for the others",
    ),
    "views-map": (
        _scene("views", {"presence": "chance", "probability": 0.95}, **(_VIEWS | {"depth": 3, "scale": 0.2})),
        "one cell; sweep the chance p against the first scale for a map",
    ),
    "views-relu": (
        _scene("views", {"presence": "chance", "probability": 0.8}, **(_VIEWS | {"network": "relu", "width": 64})),
        "",
    ),
    "views-winner": (
        _scene("views", **(_VIEWS | {"depth": 3, "scale": 0.1, "steps": 400})),
        "pathways of three layers, from one law of first weights",
    ),
}

_ROUTES: Fields = {"domains": 4, "trained": 2}
_LAZY: Fields = _ROUTED | {"width": 16, "rate": 0.05, "steps": 300, "seeds": 2}
_MARGIN: Fields = {"width": 32, "scale": 1e-4, "rate": 0.1, "steps": 400}
_LOSERS: Fields = {"gating": "views", "width": 8, "rate": 0.1, "seeds": 2}

GUIDED: tuple[Fields, ...] = (
    {
        "name": "plateaus",
        "title": "Plateaus and modes",
        "steps": [
            {
                "text": "Eight items with the properties of a tree. The network learns broad distinctions before fine "
                "ones: each drop of the loss is one level of the tree, each lane one mode of the data.",
                "scene": STARTS["hierarchy"],
            },
            {
                "text": "From weights a hundred times smaller every mode needs longer, and the plateaus part: a mode "
                "of correlation s waits about log(1/scale)/s.",
                "scene": STARTS["hierarchy"] | {"scale": 1e-5, "steps": 1900},
            },
            {
                "text": "From large weights there is hardly a plateau: all modes are there from the start.",
                "scene": STARTS["hierarchy"] | {"scale": 0.2},
            },
        ],
    },
    {
        "name": "sharing",
        "title": "Sharing wins the race",
        "steps": [
            {
                "text": "Every input domain is mapped to every output domain, by one shared hidden matrix and, beside "
                "it, by a pathway of its own for each pair. The shared pathway is driven by all examples at once.",
                "scene": PRESETS["saxe2022-fig5"][0],
            },
            {
                "text": "The same race from weights that are five times larger: the private pathways keep more of it. "
                "Look at the winner's share under the lanes.",
                "scene": PRESETS["saxe2022-fig5"][0] | {"scale": 0.5},
            },
        ],
    },
    {
        "name": "lazy",
        "title": "From race to lazy",
        "steps": [
            {
                "text": "Routing with half of the routes trained, from small weights. The singular values of the "
                "shared matrix rise one after the other: a race.",
                "scene": _scene("routing", _ROUTES, scale=0.2, **_LAZY),
            },
            {
                "text": "From large weights everything is learned at once while the hidden matrix moves little: the "
                "lazy regime. Compare the singular values on the right.",
                "scene": _scene("routing", _ROUTES, scale=2.5, **(_LAZY | {"rate": 0.005, "steps": 600})),
            },
        ],
    },
    {
        "name": "margin",
        "title": "From XOR to linear at √(2/3)",
        "steps": [
            {
                "text": "XOR with a little linear margin. The gating with one pathway per example is forecast to be "
                "faster than the one with a pathway per sign (dotted, pinned).",
                "scene": _scene("xor", {"delta": 0.5}, gating="xor", **_MARGIN),
                "pins": [_scene("xor", {"delta": 0.5}, gating="linear", **_MARGIN)],
            },
            {
                "text": "At a margin of √(2/3) = 0.816 the two gatings are equally fast from equal strengths.",
                "scene": _scene("xor", {"delta": 0.8165}, gating="xor", **_MARGIN),
                "pins": [_scene("xor", {"delta": 0.8165}, gating="linear", **_MARGIN)],
            },
            {
                "text": "Beyond it the linear one leads. A ReLU network is free to take either: look where its "
                "neurons go in the plane of the inputs.",
                "scene": _scene("xor", {"delta": 1.5}, network="relu", **_MARGIN),
                "pins": [_scene("xor", {"delta": 1.5}, gating="linear", **_MARGIN)],
            },
        ],
    },
    {
        "name": "losers",
        "title": "Why losers do not decay",
        "steps": [
            {
                "text": "Three views tell the same class. With two layers and equal rates the strengths of two views "
                "along a mode keep their ratio while they grow: nobody is driven out, and a loser keeps its share.",
                "scene": _scene("views", **(_LOSERS | {"scale": 0.02, "steps": 300})),
            },
            {
                "text": "With three layers a small head start grows: the leader runs away, and what is left to learn "
                "runs out before the others arrive. They stop where they are; they do not decay.",
                "scene": _scene("views", **(_LOSERS | {"depth": 3, "scale": 0.1, "steps": 400})),
            },
        ],
    },
)


def about() -> Fields:
    """Everything that the page needs to know before it asks for a forecast."""
    known = FIGURES
    return {
        "bounds": {name: bound.as_data() for name, bound in SCENE.items()},
        "tasks": {task: {name: bound.as_data() for name, bound in given.items()} for task, given in TASKS.items()},
        "starts": {task: Scene.read(scene).as_data() for task, scene in STARTS.items()},
        "first": FIRST.as_data(),
        "presets": [
            {"name": name, "title": known[name].title, "source": known[name].source, "note": note}
            | {"scene": Scene.read(scene).as_data()}
            for name, (scene, note) in PRESETS.items()
        ],
        "guided": [_complete(guided) for guided in GUIDED],
        "limits": {"bytes": BODY_BYTES},
        "measures": list(MAP_VALUES),
        "colors": COLORS,
        "series": list(SERIES),
    }


def _complete(guided: Fields) -> Fields:
    """A guided scene with every value of its steps."""
    steps = [
        step
        | {
            "scene": Scene.read(step["scene"]).as_data(),
            "pins": [Scene.read(p).as_data() for p in step.get("pins", [])],
        }
        for step in guided["steps"]
    ]
    return guided | {"steps": steps}
