import re
import types
from pathlib import Path

import pytest

import neuralrace as nr

# the contract of DESIGN as far as it is built
CONTRACT = {
    "Architecture": ("inputs", "outputs", "hidden", "count_paths", "paths", "to_networkx", "draw"),
    "Problem": ("forward", "loss", "gradient", "compress", "statistics"),
    "PathStatistics": ("input_output", "input"),
    "Trajectory": ("time", "loss", "status", "data", "save", "load", "plot", "to_frame"),
    "Explanation": ("explained", "verdict", "modules", "agreements", "save"),
    "initial": ("gaussian", "relative", "orthogonal", "xavier", "decoupled"),
    "reln": ("discover", "predict_modules", "implementable", "race"),
    "tasks": ("names", "get", "read", "xor", "contextual", "routing", "routed_images"),
}


def test_all_names_exist_and_are_sorted_once():
    assert list(nr.__all__) == sorted(set(nr.__all__))
    for name in nr.__all__:
        assert hasattr(nr, name), name
    assert dir(nr) == nr.__all__
    with pytest.raises(AttributeError, match="predct"):
        _ = nr.predct


def test_type_checkers_see_the_same_names():
    stub = (Path(nr.__file__).parent / "__init__.pyi").read_text(encoding="utf-8")
    assert sorted(word.rstrip(",") for word in re.findall(r" as (\w+)", stub)) == nr.__all__


def test_nothing_else_is_public_but_submodules():
    for name, value in vars(nr).items():
        if not name.startswith("_") and name not in nr.__all__:
            assert isinstance(value, types.ModuleType), name
            assert value.__name__ == f"neuralrace.{name}"


@pytest.mark.parametrize("name", CONTRACT)
def test_the_contract_is_kept(name):
    for member in CONTRACT[name]:
        held = getattr(getattr(nr, name), "__dataclass_fields__", {})
        assert hasattr(getattr(nr, name), member) or member in held, f"{name}.{member}"
