"""The picture that opens README and docs: pathways race, theory ahead of time in black, training in color.

python -m docs.hero          # train and forecast, write the record and both pictures
python -m docs.hero --draw   # the pictures again, from the record
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import neuralrace as nr
from neuralrace.io import write_text
from neuralrace.plotting import sequence

HERE = Path(__file__).parent
RECORD = HERE / "records" / "race.json"
PICTURES = {True: HERE / "images" / "race.svg", False: HERE / "images" / "race-still.svg"}  # animated or not
SETTINGS = {"domains": 4, "hidden": 16, "gain": 0.2, "learning_rate": 0.08, "steps": 1900, "seeds": 5, "moments": 153}
LANES = {"P=16": "shared by all 16 routes", "P=4": "shared by 4", "P=1": "one for each route"}

WIDTH, HEIGHT, SECONDS = 560, 456, 9  # narrow, so that its words can be read on a phone
TRACK = (28, 474)  # from start to finish, in pixels
TOP, LANE = 144, 50  # of the first lane, and from lane to lane
PLOT = (42, 300, 432, 104)  # left, top, width, height of the curves
KINDS = ("theory", "trained")
STILL = 6  # the still shows the race after a sixth of the time, when it is open
INK, SOFT, LINE = "#1b1b1f", "#5c5c66", "#d9d9d4"


def compute() -> dict[str, Any]:
    """How much of the loss is gone, at chosen times: forecast from the initializer, and trained."""
    named, initial = nr.tasks.routing(SETTINGS["domains"], SETTINGS["domains"]), nr.initial.orthogonal(SETTINGS["gain"])
    lanes = {}
    for gating in LANES:
        problem = named.problem(gating, hidden=SETTINGS["hidden"])
        at = np.unique(np.linspace(0, SETTINGS["steps"], SETTINGS["moments"]).astype(int)).tolist()
        run = nr.train(problem, initial, SETTINGS["learning_rate"], SETTINGS["steps"], seeds=SETTINGS["seeds"], at=at)
        forecast = nr.predict(problem, initial, run.time, key=1)  # draws of its own
        gone = 1 - run.loss / run.loss[:, :1]
        lanes[gating] = {
            "method": forecast.method,
            "theory": _rounded(1 - forecast.loss / forecast.loss[0]),
            "trained": _rounded(gone.mean(axis=0)),
            "lowest": _rounded(gone.min(axis=0)),
            "highest": _rounded(gone.max(axis=0)),
            "normalized_l1": round(nr.agreement(forecast, run).normalized_l1, 4),
        }
    return {"settings": SETTINGS, "time": _rounded(run.time), "lanes": lanes}


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 4) for value in values]


def read(path: Path = RECORD) -> dict[str, Any]:
    """The record."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def render(record: Mapping[str, Any], animated: bool) -> str:
    """The picture as SVG, which needs no script: runners on lanes above, the same as curves below."""
    time, lanes = record["time"], record["lanes"]
    colors = dict(zip(lanes, sequence(len(lanes)), strict=True))
    runners = "".join(
        _lane(number, gating, lane, colors[gating], animated) for number, (gating, lane) in enumerate(lanes.items())
    )
    curves = "".join(_curve(time, lane, colors[gating]) for gating, lane in lanes.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" role="img"
 viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif" font-size="15">
<title>Three networks race to learn one task; theory says beforehand when each arrives</title>
<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#fff"/>
<g font-size="19" font-weight="600" fill="{INK}">
<text x="24" y="34">The neural race: the more a pathway is shared,</text>
<text x="24" y="59">the sooner it learns</text></g>
<g fill="{SOFT}"><circle cx="33" cy="86" r="7" fill="{SOFT}"/><text x="46" y="91">trained networks</text>
<circle cx="203" cy="86" r="9" fill="none" stroke="#000" stroke-width="2" stroke-dasharray="4 2.5"/>
<text x="218" y="91">theory, computed before any training</text></g>
<path d="M{TRACK[1]} {TOP - 14}V{TOP + 2 * LANE + 14}" stroke="{LINE}" stroke-width="3"/>
<text x="{TRACK[1] + 8}" y="{TOP + LANE + 5}" fill="{SOFT}" font-size="14">learned</text>
{runners}{curves}{_clock(time, animated)}
</svg>
"""


def _lane(number: int, gating: str, lane: Mapping[str, Any], color: str, animated: bool) -> str:
    """One track with its runner and the ring that theory sends with it."""
    height = TOP + number * LANE
    places = {name: [round(TRACK[0] + value * (TRACK[1] - TRACK[0]), 1) for value in lane[name]] for name in KINDS}
    parts = [
        f'<text x="24" y="{height - 17}" fill="{color}" font-weight="600">{gating.replace("=", " = ")}</text>',
        f'<text x="94" y="{height - 17}" fill="{INK}">{LANES[gating]}</text>',
        f'<line x1="{TRACK[0]}" y1="{height}" x2="{TRACK[1]}" y2="{height}" stroke="{LINE}" stroke-width="2"/>',
    ]
    looks = {
        "trained": f'r="9" fill="{color}"',
        "theory": 'r="12" fill="none" stroke="#000" stroke-width="2" stroke-dasharray="4 2.5"',
    }
    for name, look in looks.items():
        along = places[name]
        moves = _moves("cx", along) if animated else ""
        at = along[0] if animated else along[len(along) // STILL]
        parts.append(f'<circle cx="{at}" cy="{height}" {look}>{moves}</circle>')
    return "\n".join(parts) + "\n"


def _curve(time: Sequence[float], lane: Mapping[str, Any], color: str) -> str:
    left, top, width, height = PLOT

    def points(values: Sequence[float]) -> list[str]:
        return [
            f"{left + width * t / time[-1]:.1f},{top + height * (1 - value):.1f}"
            for t, value in zip(time, values, strict=True)
        ]

    band = " ".join([*points(lane["highest"]), *reversed(points(lane["lowest"]))])
    return (
        f'<polygon points="{band}" fill="{color}" opacity=".25"/>'
        f'<polyline points="{" ".join(points(lane["trained"]))}" fill="none" stroke="{color}" stroke-width="2.5"/>'
        f'<polyline points="{" ".join(points(lane["theory"]))}" fill="none" stroke="#000" stroke-width="1.6" '
        f'stroke-dasharray="6 4"/>\n'
    )


def _clock(time: Sequence[float], animated: bool) -> str:
    """The axes of the curves, and the moment that the runners are at."""
    left, top, width, height = PLOT
    across = [round(left + width * t / time[-1], 1) for t in time]
    at = across[0] if animated else across[len(across) // STILL]
    moves = _moves("x1", across) + _moves("x2", across) if animated else ""
    return f"""<g stroke="{SOFT}" fill="none"><path d="M{left} {top}V{top + height}H{left + width}"/>
<line x1="{at}" y1="{top - 8}" x2="{at}" y2="{top + height}">{moves}</line></g>
<g fill="{SOFT}" font-size="14"><text x="{left - 18}" y="{top - 16}">part of the loss that is gone</text>
<text x="{left - 8}" y="{top + 5}" text-anchor="end">1</text><text x="{left - 8}" y="{top + height + 4}" \
text-anchor="end">0</text>
<text x="{left + width / 2}" y="{top + height + 34}" text-anchor="middle">time (learning rate &#215; step)</text>
<text x="{left}" y="{top + height + 18}" text-anchor="middle">0</text>
<text x="{left + width}" y="{top + height + 18}" text-anchor="middle">{time[-1]:.0f}</text></g>"""


def _moves(attribute: str, values: Sequence[float]) -> str:
    """The animation of one attribute through all moments, with a rest at the end."""
    listed = ";".join(f"{value:g}" for value in [*values, values[-1]])
    keys = ";".join(f"{0.85 * index / (len(values) - 1):.3f}" for index in range(len(values))) + ";1"
    return (
        f'<animate attributeName="{attribute}" dur="{SECONDS}s" repeatCount="indefinite" '
        f'keyTimes="{keys}" values="{listed}"/>'
    )


def main() -> None:
    """Write the pictures, and before that the record unless it is only to be drawn."""
    parser = argparse.ArgumentParser(description="Make the picture of the race from a real run.")
    parser.add_argument("--draw", action="store_true", help="from the record, without a run")
    if not parser.parse_args().draw:
        print(write_text(RECORD, json.dumps(compute(), indent=1) + "\n"))
    for animated, path in PICTURES.items():
        print(write_text(path, render(read(), animated)))


if __name__ == "__main__":
    main()
