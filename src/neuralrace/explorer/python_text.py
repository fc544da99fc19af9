"""A scene as a Python program that forecasts, trains and compares."""

import numpy as np

from neuralrace.explorer.answers import DRAWS, RTOL
from neuralrace.explorer.problem import ROUTED_DIGITS, last_columns, make_setup
from neuralrace.explorer.scene import Scene
from neuralrace.explorer.session import Session


def python_text(session: Session, scene: Scene) -> str:
    """Return a program that gives the same forecast and the same training."""
    setup, settings, width = make_setup(session, scene), dict(scene["settings"]), scene["width"]
    problem, name = setup.problem, scene["task"]
    lines = ["import numpy as np", "", "import neuralrace as nr", ""]
    task = "task" if name == "digits" else "named.task"
    if "digits" in (name, settings.pop("items", None)):
        count = settings.pop("examples", ROUTED_DIGITS)
        lines += ["from sklearn.datasets import load_digits", "", "digits = load_digits()"]
        lines += [f"images, classes = digits.data[:{count}] / 16, np.eye(10)[digits.target[:{count}]]"]
        settings |= {"inputs": "images", "targets": "classes"}
    if name == "digits":
        lines += ['task = nr.Task({"x": images}, {"y": classes})']
    elif name == "table":
        lines += [f'named = nr.tasks.read("table.csv", targets="{last_columns(settings["targets"])}")  # your file']
    else:
        # inputs and targets are names of variables
        given = (f"{key}={value if key in ('inputs', 'targets') else repr(value)}" for key, value in settings.items())
        lines += [f"named = nr.tasks.{name}({', '.join(given)})"]
    architecture = problem.architecture
    if problem.activations and len(architecture.inputs) == 1:
        lines += [f"problem = nr.ReLUNetwork({task}, hidden={(width,) * (scene['depth'] - 1)!r})"]
    elif setup.named and name not in ("digits", "table"):
        lines += [f"problem = named.problem({setup.gating!r}, hidden={width})"]
    else:
        if len(setup.task.task.inputs) > 1 or set(problem.task.inputs) != set(setup.task.task.inputs):
            task = f"named.problem({setup.gating!r}, hidden=1).task"  # with the input nodes of the gating
        rectified = f", activations={dict.fromkeys(architecture.hidden, 'relu')!r}" if problem.activations else ""
        lines += [f"architecture = nr.Architecture({dict(architecture.nodes)!r}, {list(architecture.edges)!r})"]
        lines += ["gates = {"]
        for node, gate in problem.gates.nodes.items():
            values = [int(value) if value == int(value) else float(value) for value in np.asarray(gate, dtype=float)]
            lines += [f"    {node!r}: {values!r},"]
        lines += ["}", f"problem = nr.Problem(architecture, {task}, nr.Gates(nodes=gates){rectified})"]
    own = f"learning_rate={scene['rate']!r}" if problem.activations else f"rtol={RTOL!r}"
    trained = f"{scene['rate']!r}, {scene['steps']}, seeds={scene['seeds']}, key={scene['key']}"
    lines += [
        f"initial = nr.initial.{scene['initial']}({scene['scale']!r})",
        "",
        f"run = nr.train(problem, initial, {trained})",
        f"forecast = nr.predict(problem, initial, run.time, key={scene['key']}, draws={DRAWS}, {own})",
        "print(forecast.certificate)",
        "print(nr.agreement(forecast, run))",
        'nr.compare(forecast, run).savefig("comparison.png")',
        "",
    ]
    return "\n".join(lines)
