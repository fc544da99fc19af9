"""A scene as a Python program that forecasts, trains and compares what the page shows."""

import numpy as np

from neuralrace.explorer.answers import DRAWS, RTOL, stage_of
from neuralrace.explorer.desk import Desk
from neuralrace.explorer.scene import Scene
from neuralrace.explorer.stage import Stage
from neuralrace.explorer.tables import ROUTED_DIGITS, last_columns


def python_text(desk: Desk, scene: Scene) -> str:
    """The program; run as it is, it gives the same forecast and the same training."""
    stage = stage_of(desk, scene)
    own = f", learning_rate={scene.rate!r}" if stage.problem.activations else f", rtol={RTOL!r}"
    return "\n".join(
        [
            "import numpy as np",
            "",
            "import neuralrace as nr",
            "",
            *_task(scene),
            *_problem(scene, stage),
            f"law = nr.initial.{scene.law}({scene.scale!r})",
            "",
            f"run = nr.train(problem, law, {scene.rate!r}, {scene.steps}, seeds={scene.seeds}, key={scene.key})",
            f"forecast = nr.predict(problem, law, run.time, key={scene.key}, draws={DRAWS}{own})",
            "print(forecast.certificate)",
            "print(nr.agreement(forecast, run))",
            'nr.compare(forecast, run).savefig("comparison.png")',
            "",
        ]
    )


def _task(scene: Scene) -> list[str]:
    settings = dict(scene.settings)
    if "digits" in (scene.task, settings.pop("items", None)):
        count = settings.pop("examples", ROUTED_DIGITS)
        routes = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        return [
            "from sklearn.datasets import load_digits",
            "",
            "digits = load_digits()",
            f"images, classes = digits.data[:{count}] / 16, np.eye(10)[digits.target[:{count}]]",
            'task = nr.Task({"x": images}, {"y": classes})'
            if scene.task == "digits"
            else f"named = nr.tasks.routing({routes}, inputs=images, targets=classes)",
        ]
    if scene.task == "table":
        return [f'named = nr.tasks.read("table.csv", targets="{last_columns(settings["targets"])}")  # your file']
    given = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return [f"named = nr.tasks.{scene.task}({given})"]


def _problem(scene: Scene, stage: Stage) -> list[str]:
    task = "task" if scene.task == "digits" else "named.task"
    if scene.network == "relu" and len(stage.problem.architecture.inputs) == 1:
        return [f"problem = nr.ReLUNetwork({task}, hidden={(scene.width,) * (scene.depth - 1)!r})"]
    if stage.named and scene.task not in ("digits", "table"):
        return [f"problem = named.problem({stage.gating!r}, hidden={scene.width})"]
    architecture = stage.problem.architecture
    if len(stage.task.task.inputs) > 1 or set(stage.problem.task.inputs) != set(stage.task.task.inputs):
        task = f"named.problem({stage.gating!r}, hidden=1).task"  # whose input nodes are those of the gating
    rectified = f", activations={dict.fromkeys(architecture.hidden, 'relu')!r}" if stage.problem.activations else ""
    gates = [f"    {node!r}: {_gate(gate)}," for node, gate in stage.problem.gates.nodes.items()]
    return [
        "architecture = nr.Architecture(",
        f"    {dict(architecture.nodes)!r},",
        f"    {list(architecture.edges)!r},",
        ")",
        *(["gates = nr.Gates(nodes={", *gates, "})"] if gates else ["gates = nr.Gates()"]),
        f"problem = nr.Problem(architecture, {task}, gates{rectified})",
    ]


def _gate(gate: np.ndarray) -> str:
    values = np.asarray(gate, dtype=float)
    return repr([int(value) if value == int(value) else float(value) for value in values])
