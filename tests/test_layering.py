"""Which parts of the package may import which, and that nothing in it executes or unpickles what it reads."""

import ast
import graphlib
from pathlib import Path

import pytest

import neuralrace

ROOT = Path(neuralrace.__file__).parent
FILES = {
    ".".join(("neuralrace", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}

# part of the package -> parts that it never imports
NEVER = {
    "theory": {"training", "reln", "explanation", "papers"},
    "training": {"theory", "reln", "explanation", "papers", "statistics"},
    "plotting": {"_engine", "problem", "tasks", "theory", "training", "reln"},
    "tasks": {"theory", "training", "reln", "explanation", "papers"},
    "reln": {"explanation", "papers", "tasks"},
    "explanation": {"explorer", "papers"},
}


def part(name: str) -> str:
    """The module or package directly under neuralrace that a dotted name belongs to."""
    return name.split(".")[1] if "." in name else ""


def imported(tree: ast.AST) -> set[str]:
    """The modules of the package that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else str(node.module) for name in inner}
    return {module for module in found if module.split(".")[0] == "neuralrace"}


GRAPH = {name: imported(tree) - {name} for name, tree in TREES.items()}


def test_no_import_cycles() -> None:
    graphlib.TopologicalSorter({name: found for name, found in GRAPH.items() if name != "neuralrace"}).prepare()


@pytest.mark.parametrize("name", NEVER)
def test_parts_that_must_not_know_each_other(name: str) -> None:
    reached = {part(module) for file in FILES if part(file) == name for module in GRAPH[file]}
    assert reached
    assert not reached & NEVER[name]


def test_imports_inside_functions_are_found() -> None:
    assert imported(ast.parse("def late():\n    from neuralrace.training import train\n")) == {
        "neuralrace.training.train"
    }


def test_figures_use_public_names() -> None:
    """The reproductions prove that the public API is enough; `experiment` runs them and stores their results."""
    for name in (name for name in FILES if name.startswith("neuralrace.papers.")):
        own = {"neuralrace.io", "neuralrace.progress", "neuralrace.settings"}
        allowed = own if name == "neuralrace.papers.experiment" else set()
        assert not {module for module in GRAPH[name] if not public(module)} - allowed, name


def public(module: str) -> bool:
    """Whether a module stands in the reference, or is the reproductions' own."""
    names = {"analysis", "errors", "initial", "plotting", "reln", "tasks", "theory", "training", "views"}
    return module in {
        "neuralrace",
        "neuralrace.tasks.pairs",
        "neuralrace.theory.exact",
        "neuralrace.theory.routed",
    } or (part(module) == "papers" or module in {f"neuralrace.{name}" for name in names})


UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "runpy"}
UNSAFE_NAMES = {"eval", "exec", "compile", "__import__"}
UNSAFE_CALLS = {"os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "torch.load", "pd.read_pickle"}


def unsafe(tree: ast.AST) -> list[tuple[int, str]]:
    """Lines of a file that execute text, start a shell, or read what could execute something."""
    found = []
    for node in ast.walk(tree):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [(node.lineno, module) for module in modules if module.split(".")[0] in UNSAFE_MODULES]
        if isinstance(node, ast.Name) and node.id in UNSAFE_NAMES:
            found.append((node.lineno, node.id))
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            given = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
            loads = called in ("np.load", "numpy.load") and given.get("allow_pickle") is not False
            if called in UNSAFE_CALLS or given.get("shell", False) is not False or loads:
                found.append((node.lineno, called))
            if given.get("allow_pickle", False) is not False:
                found.append((node.lineno, "allow_pickle"))
    return found


def test_nothing_is_executed_or_unpickled() -> None:
    """But for functions that a caller gives to a sweep, on their way to its workers; they are in no file."""
    found = {name: [what for _, what in lines] for name, tree in TREES.items() if (lines := unsafe(tree))}
    assert found == {"neuralrace.workers": ["cloudpickle"]}


@pytest.mark.parametrize(
    "line",
    [
        *("import pickle", "from joblib import load", "eval('1')", "f = exec", "os.system('ls')", "np.load(path)"),
        *("subprocess.run('ls', shell=True)", "np.load(path, allow_pickle=True)", "torch.load(path)"),
    ],
)
def test_unsafe_lines_are_found(line: str) -> None:
    assert unsafe(ast.parse(line))


@pytest.mark.parametrize("line", ["np.load(path, allow_pickle=False)", "re.compile('a')", "subprocess.run(['ls'])"])
def test_safe_lines_pass(line: str) -> None:
    assert unsafe(ast.parse(line)) == []
