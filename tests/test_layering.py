"""The rooms of docs/architecture.md, held by parsing the imports of every file, those inside functions too."""

import ast
import graphlib
import re
import sys
from pathlib import Path

import pytest

import neuralrace

PAGE = Path(__file__).parent.parent / "docs/architecture.md"


def rooms_of_the_page():
    """Per row of the table of rooms: the rooms, and what they never import although it is above."""
    section = PAGE.read_text(encoding="utf-8").split("## The rooms")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return [tuple(re.findall(r"`(\w+)`", cell) for cell in (rooms, never)) for rooms, _, never in rows]


# A module imports only from rows above its own, or from its own package; modules of one row never import each
# other. The front door (__init__.py) imports anything and is imported by nothing.
RANK = {room: rank for rank, (rooms, _) in enumerate(rooms_of_the_page()) for room in rooms}
NEVER = {room: set(never) for rooms, never in rooms_of_the_page() for room in rooms}

ROOT = Path(neuralrace.__file__).parent
FILES = {
    ".".join(("neuralrace", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


def top(name):
    """The module or package directly under neuralrace that a dotted name belongs to."""
    return name.split(".")[1] if "." in name else ""


def imported(name):
    """The modules of the package that a file imports anywhere in it."""
    found = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import in line {node.lineno}: write it in full"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in FILES else node.module)
    return {module for module in found if module.split(".")[0] == "neuralrace"}


def test_every_module_has_a_place_in_the_table():
    unknown = sorted({top(name) for name in FILES} - set(RANK) - {"", "__main__"})
    assert not unknown, f"add {', '.join(unknown)} to the table of rooms in docs/{PAGE.name}"
    gone = sorted((set(RANK) | set().union(*NEVER.values())) - {top(name) for name in FILES})
    assert not gone, f"docs/{PAGE.name} has rooms that are not there: {', '.join(gone)}"


@pytest.mark.parametrize("name", [name for name in FILES if top(name) in RANK])
def test_imports_point_down(name):
    own = top(name)
    for module in sorted(imported(name)):
        assert module != "neuralrace", f"{name} must not import the front door: import from the module itself"
        other = top(module)
        assert other == own or RANK[other] < RANK[own], f"{name} must not import {module}: it is not below {own}"
        assert other not in NEVER[own], f"{name} must not import {module}: {own} never imports {other}"


def test_no_file_imports_itself_by_way_of_others():
    graph = {name: imported(name) - {name} for name in FILES if name != "neuralrace"}
    try:
        order = tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail("import cycle: " + " imports ".join(reversed(error.args[1])))
    assert set(graph) <= set(order)


def test_theory_and_training_share_nothing_but_the_problem():
    for name in FILES:
        if top(name) == "training":
            assert not imported(name) & {"neuralrace.path_statistics", "neuralrace.shared_bases"}, (
                f"{name} sees the statistics"
            )
        if top(name) in ("theory", "training"):
            assert {top(module) for module in imported(name)}.isdisjoint({"theory", "training"} - {top(name)})


# of theory, what works on the statistics of linear nodes; a request may have the examples, for the other methods
FROM_MOMENTS = ("closed_form", "reduction", "aligned", "flow", "exact", "integration", "alignment", "evolution")
EXAMPLES = {"task", "problem"}  # ways from a request to its examples


def reached(name):
    """Ways to examples that a file takes."""
    attributes = {node.attr for node in ast.walk(TREES[name]) if isinstance(node, ast.Attribute)}
    return (attributes & EXAMPLES) | (imported(name) & {"neuralrace.task", "neuralrace.problem"})


def test_methods_for_linear_nodes_never_reach_past_the_statistics(monkeypatch):
    chosen = [name for name in FILES if name.startswith("neuralrace.theory.") and name.split(".")[2] in FROM_MOMENTS]
    assert {name.split(".")[2] for name in chosen} == set(FROM_MOMENTS)
    assert {name: found for name in chosen if (found := reached(name))} == {}
    monkeypatch.setitem(TREES, chosen[0], ast.parse("rows = request.problem.task.inputs"))
    assert reached(chosen[0]) == {"problem", "task"}


@pytest.mark.parametrize("name", FILES)
def test_no_file_shadows_the_standard_library(name):
    assert name.rsplit(".", 1)[-1] not in sys.stdlib_module_names, f"{name} has the name of a standard module"


# names of classes and aliases that may stand in several modules, and why
SHARED = {
    "Settings": "each figure has settings of its own, which nothing but its file names",
    "Plateau": "of a loss: foretold by theory.exact, found in a curve by analysis; both are public",
}


def named_kinds(name):
    """Classes and aliases that a file defines. A type variable is none: it means what its function makes of it."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
    for node in TREES[name].body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            variable = isinstance(node.value, ast.Call) and dotted(node.value.func) in ("TypeVar", "ParamSpec")
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            words = [target.id.lstrip("_") for target in targets if isinstance(target, ast.Name)]
            yield from (word for word in words if word[:1].isupper() and not word.isupper() and not variable)


def named_twice():
    """Name of a class or alias -> the modules that define it, where these are several."""
    homes = {}
    for name in FILES:
        for word in set(named_kinds(name)):
            homes.setdefault(word, []).append(name)
    return {word: modules for word, modules in homes.items() if len(modules) > 1}


def test_no_class_or_alias_has_the_name_of_another(monkeypatch):
    found = named_twice()
    assert not (twice := {word: found[word] for word in sorted(set(found) - set(SHARED))}), f"one word each: {twice}"
    assert set(SHARED) <= set(found), "what is no longer shared needs no permission"
    assert all(module.startswith("neuralrace.experiments.figures.") for module in found["Settings"])
    monkeypatch.setitem(TREES, "neuralrace.task", ast.parse("class _Trajectory:\n    pass\n\nGates = tuple[int, int]"))
    assert set(named_twice()) == {"Trajectory", "Gates", *SHARED}


UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "code", "imp", "runpy"}
UNSAFE_NAMES = {"eval", "exec", "compile", "__import__", "execfile"}
UNSAFE_CALLS = {  # by the end of their dotted name
    *("os.system", "os.popen", "os.execv", "os.execl", "os.spawnl", "os.spawnv", "subprocess.getoutput"),
    *(
        "subprocess.getstatusoutput",
        "yaml.load",
        "yaml.unsafe_load",
        "torch.load",
        "pandas.read_pickle",
        "pd.read_pickle",
    ),
}
LOADERS = {"np.load", "numpy.load"}


def dotted(node):
    """What is called, as it is written."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def unsafe(tree):
    """Lines of a file that execute text, start a shell, or read what could execute something."""
    for node in ast.walk(tree):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            if module.split(".")[0] in UNSAFE_MODULES:
                yield node.lineno, module
        if isinstance(node, ast.Name) and node.id in UNSAFE_NAMES:
            yield node.lineno, node.id
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            given = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            if called in UNSAFE_CALLS or given.get("shell", False) is not False:
                yield node.lineno, called
            if called in LOADERS and given.get("allow_pickle") is not False:
                yield node.lineno, f"{called} without allow_pickle=False"
            if given.get("allow_pickle", False) is not False:
                yield node.lineno, f"{called} with allow_pickle"


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_executed_or_unpickled(name):
    assert list(unsafe(TREES[name])) == []


@pytest.mark.parametrize(
    "line",
    [
        *("import pickle", "from pickle import loads", "import joblib.memory", "eval('1')", "exec('1')", "f = eval"),
        *("compile('1', '', 'eval')", "__import__('os')", "os.system('ls')", "os.popen('ls')", "yaml.load(text)"),
        *(
            "subprocess.run('ls', shell=True)",
            "subprocess.run('ls', shell=wanted)",
            "np.load(path)",
            "torch.load(path)",
        ),
        *("np.load(path, allow_pickle=True)", "np.save(path, x, allow_pickle=maybe)", "pd.read_pickle(path)"),
    ],
)
def test_what_is_unsafe_is_found(line):
    assert list(unsafe(ast.parse(line)))


@pytest.mark.parametrize("line", ["np.load(path, allow_pickle=False)", "re.compile('a')", "subprocess.run(['ls'])"])
def test_what_is_safe_is_let_through(line):
    assert list(unsafe(ast.parse(line))) == []


def test_the_table_finds_what_it_should(monkeypatch):
    """A file that breaks each rule is caught."""
    bad = ast.parse("def late():\n    from neuralrace.training import train\n")
    monkeypatch.setitem(TREES, "neuralrace.theory.flow.matrix_flow", bad)
    with pytest.raises(AssertionError, match=r"neuralrace.theory.flow.matrix_flow must not import neuralrace.training"):
        test_imports_point_down("neuralrace.theory.flow.matrix_flow")
    monkeypatch.setitem(TREES, "neuralrace.task", ast.parse("import neuralrace"))
    with pytest.raises(AssertionError, match="must not import the front door"):
        test_imports_point_down("neuralrace.task")
    monkeypatch.setitem(TREES, "neuralrace.views.law", ast.parse("from neuralrace.tasks import xor"))
    with pytest.raises(AssertionError, match="views never imports tasks"):
        test_imports_point_down("neuralrace.views.law")
