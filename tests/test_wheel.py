"""A wheel built from the repository runs in an environment that has nothing of the checkout."""

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling, which builds it, is not installed"
)
def test_a_wheel_installs_and_runs(tmp_path: Path) -> None:
    """The dependencies are those of this environment, which are not downloaded again; the package is the wheel's."""

    def call(*command: str | Path) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        if command[1:3] == ("-m", "hatchling"):
            clean["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
        return subprocess.run(command, cwd=ROOT, env=clean, check=True, capture_output=True, text=True).stdout

    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path)
    (wheel,) = tmp_path.glob("neuralrace-*.whl")
    site = tmp_path / "site"
    call(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel)
    venv.create(tmp_path / "env", with_pip=False)
    (own,) = (tmp_path / "env").glob("lib/python*/site-packages")
    # a folder that a .pth file names is searched, but its own .pth files, by which a checkout is found, are not read
    (own / "paths.pth").write_text(f"{site}\n{sysconfig.get_paths()['purelib']}\n")
    python = tmp_path / "env/bin/python"
    place = call(python, "-c", "import neuralrace; print(neuralrace.__file__)")
    assert Path(place.strip()).is_relative_to(site)
    listed = json.loads(call(python, "-m", "neuralrace", "list", "--json"))
    assert "saxe2022-fig3" in json.dumps(listed)
    source = ROOT / "src"  # what is no Python, such as styles of pages, is there too
    files = [path.relative_to(source) for path in source.rglob("*.*") if path.suffix != ".py"]
    data = [path for path in files if "__pycache__" not in path.parts]
    assert data
    assert all((site / path).is_file() for path in data)
