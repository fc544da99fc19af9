"""The command line: thin, one line for a user's mistake, JSON alone on standard output when asked."""

import fnmatch
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from neuralrace import experiments, initial
from neuralrace.datafiles import make_folder
from neuralrace.errors import NeuralRaceError, RangeError
from neuralrace.experiments.experiment import Result
from neuralrace.explanation import explain, resolve, task_settings
from neuralrace.report import write_report

MISTAKE = 2
OTHER_THAN_RECORDED = 1

app = typer.Typer(
    help="Predict how gated and ReLU networks learn, and check it against training.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Size = Annotated[str, typer.Option(help="full: the paper's parameters. tiny: seconds, claims not judged.")]
Out = Annotated[Path | None, typer.Option(help="Folder for data, claims and figures.")]
Formats = Annotated[list[str] | None, typer.Option("--format", help="png (default), svg or pdf; may be repeated.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]


def say(message: str) -> None:
    """Write for a person, away from standard output."""
    print(message, file=sys.stderr)


@app.command("list")
def list_experiments(as_json: AsJson = False) -> None:
    """List the experiments."""
    found = [experiments.get(name) for name in experiments.names()]
    if as_json:
        print(json.dumps([{"name": e.name, "title": e.title, "source": e.source} for e in found]))
        return
    table = Table("name", "what it shows", "source", box=None)
    for experiment in found:
        table.add_row(experiment.name, experiment.title, experiment.source)
    Console().print(table)


@app.command()
def run(
    name: str,
    size: Size = "full",
    seeds: Annotated[int | None, typer.Option(help="Number of seeds.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="key=value, any setting.")] = None,
    out: Out = None,
    formats: Formats = None,
    as_json: AsJson = False,
) -> None:
    """Run one experiment, print its claims, and with --out keep its data and figure."""
    experiments.check_formats(formats or ())
    wanted = _changes(changes or [], seeds)
    result = experiments.run(name, size, changes=wanted, out=out)
    pictures = experiments.save_result(result, out, formats or ("png",)) if out is not None else []
    if as_json:
        print(json.dumps(experiments.summarise(result)))
    else:
        _show(result)
        for picture in pictures:
            print(f"figure: {picture}")
    raise typer.Exit(0 if result.as_recorded else OTHER_THAN_RECORDED)


@app.command()
def reproduce(
    only: Annotated[list[str] | None, typer.Option(help="Run these only: names or patterns like 'saxe2022-*'.")] = None,
    size: Size = "full",
    out: Annotated[Path, typer.Option(help="Folder for data, claims, figures and the report.")] = Path("results"),
    formats: Formats = None,
    as_json: AsJson = False,
) -> None:
    """Run all experiments and write one report; finished ones are reused while settings and code are the same."""
    experiments.check_formats(formats or ())
    names = _chosen(only) if only else list(experiments.names())
    results = []
    for index, name in enumerate(names):
        say(f"[{index + 1}/{len(names)}] {name}")
        result = experiments.run(name, size, out=out, reuse=True)
        experiments.save_result(result, out, formats or ("png",))
        results.append(result)
        if not as_json:
            _show(result)
    page = write_report(results, out / "report.html")
    if as_json:
        print(json.dumps({"report": str(page), "results": [experiments.summarise(result) for result in results]}))
    else:
        print(f"report: {page}")
    raise typer.Exit(0 if all(result.as_recorded for result in results) else OTHER_THAN_RECORDED)


@app.command("explain")
def explain_task(
    task: Annotated[
        list[str],
        typer.Argument(help="A named task, an .npz file, or .csv files: inputs, targets and, if any, groups."),
    ],
    hidden: Annotated[
        list[int] | None, typer.Option(help="Width of a hidden layer; repeat it for more layers.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of networks.")] = 5,
    groups: Annotated[
        str | None, typer.Option(help="Which grouping of a named task; the coarsest if not given.")
    ] = None,
    modules: Annotated[str, typer.Option(help="How many modules in each layer; auto finds the elbow.")] = "auto",
    learning_rate: Annotated[float | None, typer.Option(help="Step size; from the task if not given.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps; until a first network has learned if not given.")] = None,
    std: Annotated[float | None, typer.Option(help="Standard deviation of the first weights.")] = None,
    key: Annotated[int, typer.Option(help="Seed of all randomness.")] = 0,
    changes: Annotated[list[str] | None, typer.Option("--set", help="key=value, a setting of the named task.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the page, the figure and the networks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train ReLU networks on a task and report their modules, why those, and how they learn."""
    if out is not None:
        make_folder(out)
    report = explain(
        resolve(*task, settings=task_settings(task[0], _changes(changes or [], None))),
        tuple(hidden or (700,)),
        seeds,
        groups=groups,
        modules=int(modules) if modules.isdigit() else modules,
        initial=None if std is None else initial.gaussian(std),
        learning_rate=learning_rate,
        steps=steps,
        key=key,
    )
    page = None if out is None else report.save(out)
    if as_json:
        print(json.dumps(report.summary() | ({} if page is None else {"page": str(page)})))
        return
    print(report)
    if page is not None:
        print(f"\npage: {page}")


def _chosen(patterns: Sequence[str]) -> list[str]:
    """The experiments that match a name or a pattern such as 'saxe2022-*', each once."""
    found = [name for pattern in patterns for name in fnmatch.filter(experiments.names(), pattern) or [pattern]]
    return [experiments.get(name).name for name in dict.fromkeys(found)]


def _changes(given: Sequence[str], seeds: int | None) -> dict[str, Any]:
    changes: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise RangeError(f"--set needs key=value; it was {text!r}")
        changes[key.strip()] = value.strip()
    return changes


def _show(result: Result) -> None:
    print(f"{result.experiment.name}: {result.experiment.title}")
    text = result.experiment.summary(result.data)
    if text:
        print(text)
    for claim in result.claims:
        verdict = "holds" if claim.holds else "does not hold"
        if not result.judged:
            verdict = f"not judged at this size ({verdict})"
        elif not claim.as_recorded:
            verdict += f", OTHER THAN RECORDED ({claim.on_record})"
        print(f"- {claim.text} [{claim.source}]")
        print(f"    expected: {claim.expected}")
        print(f"    measured: {claim.measured}: {verdict}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; a user's mistake is one line on standard error and status 2."""
    try:
        status = app(args=list(sys.argv[1:] if arguments is None else arguments), standalone_mode=False)
    except (NeuralRaceError, OSError) as error:
        status = _mistake(str(error))
    except typer.Abort:
        status = 130
    except Exception as error:
        # the parser's own errors share this method and no public class
        if not hasattr(error, "format_message"):
            raise
        status = _mistake(f"{error.format_message()} (see neuralrace --help)")
    sys.exit(status)


def _mistake(message: str) -> int:
    say(f"neuralrace: {' '.join(message.split())}")
    return MISTAKE
