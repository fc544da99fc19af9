"""The stories: the page of the explorer with recorded runs, which needs no server.

`python -m docs.stories` records the guided scenes; building the docs puts the page beside them.
"""

import json
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records" / "explorer"
EVERY, DIGITS = 2, 4  # frames of a network that are kept, and digits of a number


def record() -> None:
    """Forecast and train every step of the guided scenes and their pins, each once."""
    from importlib.metadata import version

    from neuralrace.explorer.presets import about
    from neuralrace.explorer.scene import name_of
    from neuralrace.explorer.session import Session

    told = about()
    steps = [step for guided in told["guided"] for step in guided["steps"]]
    scenes = {name_of(one): one for step in steps for one in (step["scene"], *step["pins"])}
    RECORDS.mkdir(parents=True, exist_ok=True)
    recordings = []
    for number, given in enumerate(scenes.values()):
        found = run(Session(), given)
        file = f"run{number:02}.json"
        (RECORDS / file).write_text(json.dumps(short(found), separators=(",", ":")), encoding="utf-8")
        recordings.append({"scene": given, "file": file})
        print(f"{file}: {given['task']}, {(RECORDS / file).stat().st_size / 1000:.0f} kB", flush=True)
    told |= {"recordings": recordings, "version": version("neuralrace")}
    told["presets"] = []
    told["first"] = told["guided"][0]["steps"][0]["scene"]
    (RECORDS / "about.json").write_text(json.dumps(told, separators=(",", ":")), encoding="utf-8")


def run(session: Any, scene: Any) -> dict[str, Any]:
    """All that a page asks for of one scene."""
    from neuralrace.explorer.answers import forecast_data, snapshots_data, training_events
    from neuralrace.explorer.scene import name_of
    from neuralrace.explorer.session import Token

    forecast, snapshots = forecast_data(session, scene), snapshots_data(session, scene)
    training_events(session, scene, Token(), lambda event, data: None)
    training = session.trainings.find(name_of(scene))
    done = training["done"] | {"snapshots": thinned(training["done"]["snapshots"])}
    return {
        "forecast": forecast,
        "snapshots": thinned(snapshots),
        "training": {"curve": training["curve"], "done": done},
    }


def thinned(snapshots: dict[str, Any]) -> dict[str, Any]:
    """A network over time at fewer moments."""
    found = dict(snapshots)
    found["time"] = snapshots["time"][::EVERY]
    for name in ("edges", "values"):
        found[name] = {edge: values[::EVERY] for edge, values in snapshots[name].items()}
    lanes = [lane | {"strength": lane["strength"][::EVERY]} for lane in snapshots["lanes"]["lanes"]]
    found["lanes"] = snapshots["lanes"] | {"lanes": lanes}
    found["similarity"] = snapshots["similarity"] | {"percent": snapshots["similarity"]["percent"][::EVERY]}
    if snapshots["units"]:
        found["units"] = snapshots["units"] | {"places": snapshots["units"]["places"][::EVERY]}
    return found


def short(value: Any) -> Any:
    """The same with fewer digits; the scene, by which a recording is found, as it is."""
    if isinstance(value, dict):
        return {key: inner if key == "scene" else short(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [short(inner) for inner in value]
    if not isinstance(value, float):
        return value
    number = float(f"{value:.{DIGITS}g}")
    return int(number) if number == int(number) and abs(number) < 1e9 else number


def install(site: Path) -> None:
    """Put the page, its files and plotly's script into a built site."""
    static = Path(str(files("neuralrace.explorer") / "static"))
    folder = site / "stories"
    shutil.copytree(static, folder / "static", dirs_exist_ok=True)
    page = (static / "index.html").read_text(encoding="utf-8")
    page = page.replace('<html lang="en">', '<html lang="en" data-recorded="../records/explorer/">')
    (folder / "index.html").write_text(page, encoding="utf-8")
    (folder / "static" / "index.html").unlink()
    shutil.copy(str(files("plotly") / "package_data" / "plotly.min.js"), folder / "plotly.js")


if __name__ == "__main__":
    record()
