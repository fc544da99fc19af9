"""Which task is meant: examples, a named task or its name, or files."""

import inspect
import os
from collections.abc import Mapping
from typing import Any

from neuralrace import tasks
from neuralrace.errors import TaskError, UnknownNameError, nearest
from neuralrace.papers.settings import read_setting
from neuralrace.task import Task
from neuralrace.tasks import NamedTask
from neuralrace.tasks.files import TABLES

FILES = (".npz", *TABLES)


def resolve(
    task: Any,
    *more: str | os.PathLike[str],
    settings: Mapping[str, Any] | None = None,
    reading: Mapping[str, Any] | None = None,
) -> NamedTask:
    """The task that is meant: examples, a named task or its name with settings, or files and how to read them."""
    if isinstance(task, NamedTask):
        return task
    if isinstance(task, Task):
        return NamedTask(name="task", settings={}, task=task)
    if not isinstance(task, (str, os.PathLike)):
        raise TaskError(
            f"a task, the name of one or a file is required; {type(task).__name__} came: of arrays make "
            "Task({'x': inputs}, {'y': targets}), one example per row"
        )
    text = os.fspath(task)
    named = text in tasks.names() and not os.path.isfile(text)  # a folder of that name is no data
    if more and named:
        others = [os.fspath(one) for one in more]
        advice = "repeat --hidden for each layer" if others[0].isdecimal() else "explain them one by one"
        raise TaskError(f"one named task is required; beside {text!r} came {', '.join(map(repr, others))}: {advice}")
    if more or text.endswith(FILES) or (os.path.exists(text) and not named):
        if settings:
            raise TaskError("settings are for named tasks; a file has none")
        if more:
            raise TaskError(f"one file with examples is required; {1 + len(more)} came")
        return tasks.read(text, **(reading or {}))
    if text not in tasks.names():
        raise UnknownNameError(
            f"there is no task and no file {text!r}; {nearest(text, tasks.names())}; files end in .npz or .csv"
        )
    if reading:
        raise TaskError(
            f"{', '.join(reading)} is for files; {text!r} is a named task, whose settings are given as --set name=value"
        )
    return tasks.get(text, **(settings or {}))


def task_settings(name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a named task that came as text, each read as the kind of its default."""
    if name not in tasks.names():
        return dict(given)
    known = inspect.signature(tasks.factories()[name]).parameters
    plain = {key: p for key, p in known.items() if isinstance(p.default, (int, float, str, tuple))}
    return {
        key: read_setting(key, text, plain[key].annotation, plain[key].default) if key in plain else text
        for key, text in given.items()
    }
