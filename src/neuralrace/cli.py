"""The command line.

Status 0: done. 1: a verdict other than recorded, or a point of a sweep failed. 2: a mistake of the user, in one line.
3: an internal error, in one line with the path of the log. 130: interrupted. With --json, standard output holds one
JSON object and nothing else; the text goes to standard error.
"""

import contextlib
import contextvars
import ctypes
import fnmatch
import importlib.metadata
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from neuralrace import papers
from neuralrace.errors import COMMAND_LINE, NeuralRaceError, RangeError, require_known, require_name, shortened

if TYPE_CHECKING:
    from neuralrace.papers.experiment import Result

OTHER, MISTAKE, FAULT, INTERRUPTED = 1, 2, 3, 130

Ending = tuple[int, object]  # status, and plain values for --json

app = typer.Typer(pretty_exceptions_enable=False)
JSON = "With --json a command prints exactly one JSON object on standard output."


def _figures(incomplete: str) -> list[str]:
    return [name for name in papers.names() if name.startswith(incomplete)]


def _tasks(incomplete: str) -> list[str]:
    from neuralrace import tasks

    return [name for name in tasks.names() if name.startswith(incomplete)]


def _swept(incomplete: str) -> list[str]:
    return _tasks(incomplete) + _figures(incomplete)


Name = Annotated[str, typer.Argument(help="A figure (see `list`).", autocompletion=_figures)]
Size = Annotated[str, typer.Option(help="full: the paper's parameters. tiny: seconds, claims not judged.")]
Seeds = Annotated[int | None, typer.Option(help="Number of seeds, or networks.")]
Workers = Annotated[int | None, typer.Option(help="Processes (default: one per core; reproduce: memory permitting).")]
Out = Annotated[str | None, typer.Option(help="Folder for results.")]
Changes = Annotated[list[str] | None, typer.Option("--set", help="key=value; in a sweep key=a,b (see `list NAME`).")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process."""
    if arguments is None and "_NEURALRACE_COMPLETE" in os.environ:  # the shell completes a command line
        app(prog_name="neuralrace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json, given = "--json" in given, [word for word in given if word != "--json"]
    result: object = None
    message: str | None = None
    try:
        with _standard_output_kept_clear() if as_json else contextlib.nullcontext():
            status, result = contextvars.copy_context().run(perform, given)
    except KeyboardInterrupt:
        sys.unraisablehook = lambda _: None  # half-made objects of dask may fail to end
        status, message = INTERRUPTED, "interrupted"
    except BrokenPipeError:
        _discard_standard_output()
        status = 0
    except (NeuralRaceError, OSError, MemoryError) as error:
        status, message = MISTAKE, str(error)
    except Exception as error:
        handle, log = tempfile.mkstemp(prefix="neuralrace-", suffix=".log", text=True)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(f"neuralrace {' '.join(given)}\n\n{traceback.format_exc()}")
        status, message = FAULT, f"internal error: {type(error).__name__}: {error} (details: {log})"
    if arguments is None:  # in a process of its own
        _interrupt_with(INTERRUPTED)
    if message is not None:
        line = " ".join(message.split())
        print(f"neuralrace: {line}", file=sys.stderr)
        result = {"error": line, "status": status}
    try:
        if as_json and result is not None:
            print(json.dumps(result))
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_standard_output()
    if arguments is None:  # all is done and said
        _interrupt_with(status)
    sys.exit(status)


def _interrupt_with(status: int) -> None:
    """Let Ctrl-C end the process at once: while Python shuts down it would print a trace, and end with status 0."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(status))


def _discard_standard_output() -> None:
    """Discard further output: the reader of the pipe, such as head, has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def perform(arguments: Sequence[str]) -> Ending:
    """Run one command: its status, and plain values for --json."""
    COMMAND_LINE.set(True)
    command = typer.main.get_command(app)
    try:
        with command.make_context("neuralrace", list(arguments) or ["--help"]) as context:
            return command.invoke(context)
    except typer.Exit as end:  # help or version
        return end.exit_code, None
    except Exception as error:
        # the parser's own errors share this method and no public class
        if not hasattr(error, "format_message"):
            raise
        raise NeuralRaceError(f"{error.format_message()} (see neuralrace --help)") from None


@contextlib.contextmanager
def _standard_output_kept_clear() -> Iterator[None]:
    """Redirect what libraries (those in C included) write to standard output to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        with contextlib.suppress(OSError, TypeError, AttributeError):  # no C library to ask
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


@app.callback(invoke_without_command=True, epilog=JSON)
def front(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Predict how gated and ReLU networks learn, and check it against training."""
    if version:
        print(f"neuralrace {importlib.metadata.version('neuralrace')}")
        raise typer.Exit


@app.command("list", epilog=JSON)
def list_what_there_is(
    name: Annotated[
        str | None,
        typer.Argument(help="An experiment: list its settings and their values.", autocompletion=_figures),
    ] = None,
    tasks: Annotated[bool, typer.Option("--tasks", help="List the named tasks instead.")] = False,
) -> Ending:
    """List the experiments, the settings of one, or the named tasks."""
    if name is not None and tasks:
        raise RangeError(f"list takes the name of an experiment or --tasks; got both: {name!r} --tasks")
    if name is not None:
        from neuralrace.papers.experiment import described

        found = papers.get(name)
        rows, what = described(found.full, found.tiny), {"experiment": name}
    elif tasks:
        from neuralrace.tasks import summaries

        rows, what = [{"name": task, "what": summary} for task, summary in summaries().items()], {}
    else:
        rows = [{"name": n, "title": e.title, "source": e.source} for n, e in papers.figures().items()]
        what = {}
    texts = ([",".join(map(str, v)) if isinstance(v, tuple) else str(v) for v in row.values()] for row in rows)
    _print_table(tuple(rows[0]), texts)
    return 0, what | {"settings" if what else "tasks" if tasks else "papers": rows}


@app.command(epilog=JSON)
def run(name: Name, size: Size = "full", seeds: Seeds = None, changes: Changes = None, out: Out = None) -> Ending:
    """Run one experiment, print its claims, and with --out keep its data and figure."""
    from neuralrace.io import make_folder

    wanted = _read_changes(changes, seeds)
    folder = None if out is None else make_folder(out)
    result = papers.run(name, size, changes=wanted, out=folder)
    if folder is not None:
        result.save(folder)
    _print_claims(result)
    if folder is not None:
        print(f"files: {folder / name}")
    return 0 if result.as_recorded else OTHER, result.summary()


@app.command(epilog=JSON)
def reproduce(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Run these only: names or patterns like 'saxe2022-*'.", autocompletion=_figures),
    ] = None,
    size: Size = "full",
    out: Annotated[str, typer.Option(help="Folder for data, claims, figures and the report.")] = "results",
    workers: Workers = None,
) -> Ending:
    """Run all experiments and write one report; finished ones are reused while settings and code are the same."""
    from neuralrace.io import make_folder
    from neuralrace.papers.experiment import SIZES
    from neuralrace.report import counts, render_section, tally, write_report
    from neuralrace.workers import reproduced

    require_name("size", size, SIZES)
    known = papers.names()
    names = list(dict.fromkeys(name for pattern in only or "*" for name in fnmatch.filter(known, pattern) or [pattern]))
    for name in names:
        require_known(name, known, f"there is no experiment {name!r}")
    folder, results, drawn, failed = make_folder(out), [], {}, []
    for number, (name, section) in enumerate(reproduced(names, size, folder, workers, render_section), 1):
        place = f"[{number}/{len(names)}] {name}"
        if isinstance(section, Exception):
            failed.append(section)
            print(f"{place} failed: {shortened(section, 300)}", file=sys.stderr)
            continue
        print(place, file=sys.stderr)
        results.append(papers.run(name, size, out=folder, reuse=True))
        _print_claims(results[-1])
        drawn[name] = section
    page = write_report(results, folder / "report.html", drawn) if results else None
    if failed:
        raise failed[0]
    judged = [claim for result in results if result.judged for claim in result.claims]
    if judged:
        print(tally(judged))
    print(f"report: {page}")
    status = 0 if all(result.as_recorded for result in results) else OTHER
    values = {"report": str(page), "counts": counts(judged)}
    return status, values | {"results": [result.summary() for result in results]}


@app.command(epilog=JSON)
def sweep(
    name: Annotated[str, typer.Argument(help="A named task, or an experiment.", autocompletion=_swept)],
    changes: Changes = None,
    size: Size = "full",
    seeds: Seeds = None,
    on: Annotated[str, typer.Option(help="local, or the address of a dask scheduler.")] = "local",
    workers: Workers = None,
    out: Annotated[str, typer.Option(help="Folder for points, data and figure.")] = "sweep",
) -> Ending:
    """Train and forecast networks on a task, or run an experiment, over settings. Interrupted sweeps resume."""
    from neuralrace import sweeps

    wanted = _read_changes(changes)
    table = sweeps.sweep(name, wanted, out=out, size=size, seeds=seeds, on=on, workers=workers).table
    values: dict[str, Any] = {"experiment" if name in papers.names() else "task": name}
    values["points"] = table["file"].nunique()
    if "claim" in table:
        once = table.drop_duplicates(["file", "claim"]).groupby("claim", sort=False)["holds"]
        values["claims"] = [{"claim": claim, "points": len(holds), "holds": int(holds.sum())} for claim, holds in once]
        rows = ([each["claim"], f"{each['holds']} of {each['points']}"] for each in values["claims"])
        _print_table(("claim", "holds at points"), rows)
    else:
        values["rows"] = json.loads(table.to_json(orient="records"))  # null where a number is not finite
        titles = {"loss": "loss", "predicted_loss": "forecast", "half_step": "half at step"}
        titles |= {"predicted_half_step": "forecast", "normalized_l1": "L1"}
        titles = {name: name for name in wanted} | {name: titles[name] for name in titles if name in table}
        done = table.loc[table["failed"].isna(), list(titles)].to_numpy(object)
        _print_table(
            [*titles.values()], ([f"{v:.3g}" if isinstance(v, float) else str(v) for v in row] for row in done)
        )
        for caution in dict.fromkeys(table.get("caution", [])):
            if caution and isinstance(caution, str):  # not NaN, of a point that failed
                print(f"note: {caution}")
    failed = table.loc[table["failed"].notna(), [*wanted, "failed"]]
    values["failed"] = failed.to_dict("records")
    for point in values["failed"]:
        print(f"failed: {point}")
    print(f"points: {values['points']}, failed: {len(failed)}")
    values["data"] = os.path.join(out, "data.csv")
    print(f"data: {values['data']}")
    if "loss" in table:
        values["figure"] = os.path.join(out, "figure.png")
        print(f"figure: {values['figure']}")
    return OTHER if len(failed) else 0, values


@app.command("explain", epilog=JSON)
def explain_task(
    task: Annotated[
        str,
        typer.Argument(
            help="A named task, a .csv file with --target, an .npz file, or a run.nc that was saved.",
            autocompletion=_tasks,
        ),
    ],
    target: Annotated[list[str] | None, typer.Option(help="Column of a table to learn; may be repeated.")] = None,
    classes: Annotated[
        bool | None, typer.Option("--classes/--no-classes", help="Whether targets are classes (words, few integers).")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    missing: Annotated[str | None, typer.Option(help="Cells without a value: error, drop, or mean.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Neither standardize a table nor add a constant input.")] = False,
    standardize: Annotated[bool, typer.Option("--standardize", help="Standardize columns (a table's are).")] = False,
    bias: Annotated[bool, typer.Option("--bias", help="Add a constant input (a table gets one).")] = False,
    sep: Annotated[str | None, typer.Option(help="Separator of a table's cells (,).")] = None,
    decimal: Annotated[str | None, typer.Option(help="Decimal point of a table's numbers (.).")] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of a table's text (utf-8).")] = None,
    test: Annotated[float | None, typer.Option(help="Fraction of the examples to keep for a test, like 0.2.")] = None,
    hidden: Annotated[list[int] | None, typer.Option(help="Width of a hidden layer (700); may be repeated.")] = None,
    seeds: Seeds = None,
    checkpoints: Annotated[str | None, typer.Option(help="Folder with weights of a training of your own.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer, smaller networks; coarser forecast; no race.")] = False,
    key: Annotated[int, typer.Option(help="Seed of all draws, any whole number.")] = 0,
    changes: Changes = None,
    out: Out = None,
) -> Ending:
    """Predict how ReLU networks learn a task, train them, and report whether that held and which modules they form."""
    from neuralrace import explanation
    from neuralrace.io import make_folder

    folder = None if out is None else make_folder(out)
    reading: dict[str, Any] = {"classes": classes, "drop": drop, "missing": missing}
    reading |= {"sep": sep, "decimal": decimal, "encoding": encoding}
    reading |= {"raw": raw or None, "standardize": standardize or None, "bias": bias or None}
    reading = {name: value for name, value in reading.items() if value is not None}
    given: Any = task
    if changes:
        given = explanation.resolve(task, None, target, settings=_read_changes(changes), reading=reading)
        target, reading = None, {}
    how: dict[str, Any] = {"hidden": tuple(hidden) if hidden else None, "seeds": seeds, "quick": quick, "test": test}
    explained = explanation.explain(given, target=target, checkpoints=checkpoints, key=key, **how, **reading)
    print(explained)
    if folder is None:
        return 0, explained.summary()
    page = explained.save(folder)
    print(f"\npage: {page}")
    return 0, explained.summary() | {"page": str(page)}


@app.command()
def explore(
    port: Annotated[int | None, typer.Option(help="Port (default: 8642, or a free one).")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> Ending:
    """Open a page in the browser where forecasts answer at once and training arrives as it runs."""
    from neuralrace.explorer.server import serve

    serve(port, browser)
    return 0, None


def _read_changes(given: Sequence[str] | None, seeds: int | None = None) -> dict[str, Any]:
    changes: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise RangeError(f"--set needs key=value; it was {text!r}")
        if key.strip() in changes:
            raise RangeError(f"setting {key.strip()!r} is given twice: give it once")
        changes[key.strip()] = value.strip()
    return changes


def _print_table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> None:
    table = Table(*head, box=None)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _print_claims(result: "Result") -> None:
    """Print an experiment's claims: the paper's, findings and checks apart."""
    from neuralrace.papers.claims import by_kind
    from neuralrace.report import counted, counts, verdict

    experiment = result.experiment
    print(f"{experiment.name}: {experiment.title}")
    if experiment.differs:
        print(f"where the settings are not the paper's: {experiment.differs}")
    for kind, claims in by_kind(result.claims).items():
        count = counted(kind, counts(claims)[kind]) if result.judged else f"{len(claims)}, not judged at this size"
        print(f"{kind}: {count}")
        for claim in claims:
            prefix = f"{verdict(claim)}: " if result.judged else ""
            print(f"- {prefix}{claim.text} [{claim.source}]")
            for word, words in (("asked", claim.asked), ("measured", claim.shown), ("why", claim.fails)):
                if words:
                    print(f"    {word}: {words}")
