"""The recorded runs are those of the stories as they are told now."""

import json

from explorer_scene import stories
from neuralrace.explorer.presets import about


def test_every_scene_of_the_stories_is_recorded_and_small() -> None:
    told = json.loads((stories.RECORDS / "about.json").read_text(encoding="utf-8"))
    now = about()
    assert told["guided"] == json.loads(json.dumps(now["guided"]))
    recorded = [one["scene"] for one in told["recordings"]]
    for step in (step for guided in now["guided"] for step in guided["steps"]):
        for scene in (step["scene"], *step["pins"]):
            assert json.loads(json.dumps(scene)) in recorded
    for one in told["recordings"]:
        file = stories.RECORDS / one["file"]
        assert file.stat().st_size < 400_000
        kept = json.loads(file.read_text(encoding="utf-8"))
        assert kept["forecast"]["scene"] == one["scene"]
        assert len(kept["training"]["curve"]["time"]) == len(kept["forecast"]["time"])
