"""The front door of sweeps: an experiment and values of its settings in, one dataset out."""

import json
import os
from collections.abc import Mapping
from typing import Any

from neuralrace.cluster import LOCAL, ClusterError, check_options, connected
from neuralrace.datafiles import write_text, write_whole
from neuralrace.errors import in_one_line
from neuralrace.progress import Meter
from neuralrace.sweeps.assembly import assemble
from neuralrace.sweeps.dispatch import finished_points
from neuralrace.sweeps.folder import Folder, find_folder, open_folder
from neuralrace.sweeps.points import Sweep, make_sweep
from neuralrace.sweeps.swept import Swept


def sweep(
    name: str,
    settings: Mapping[str, Any],
    *,
    out: str | os.PathLike[str],
    size: str = "full",
    seeds: int | None = None,
    on: Any = LOCAL,
    workers: int | None = None,
    memory: str | None = None,
    progress: bool = True,
) -> Swept:
    """Run an experiment for every combination of some settings' values, on a dask cluster.

    settings: name -> values. out: a folder; each finished point is a sealed file there, so a sweep that was killed
    goes on where it was and ends with the same bytes. on: "local" for processes of this machine, the address of a
    dask scheduler, or a client. workers, memory: how many processes and how much each may take ("2GiB"), for "local".
    A point that fails is marked, and tried again when the sweep is.
    """
    wanted = make_sweep(name, settings, size=size, seeds=seeds)
    check_options(on, workers, memory)
    folder = find_folder(out, wanted)
    failed = _compute(wanted, folder, on, workers, memory, progress)
    data, path = assemble(wanted, folder, failed)
    reasons = json.loads(data.attrs["failed"] or "{}")
    swept = Swept(wanted, data, path, reasons)
    write_text(folder.path / "claims.json", json.dumps(swept.summary() | {"data": path.name}, indent=2) + "\n")
    write_whole(folder.path / "figure.png", lambda part: swept.figure().savefig(part, dpi=150))
    return swept


def _compute(
    wanted: Sweep, folder: Folder, on: Any, workers: int | None, memory: str | None, progress: bool
) -> dict[str, str]:
    """Finish what is not finished; key -> why, for the points that failed."""
    missing = [point for point in wanted.points if not folder.finished(point)]
    failed: dict[str, str] = {}
    with Meter("sweep", len(wanted.points), shown=progress, lines=True) as meter:
        meter.advance(len(wanted.points) - len(missing))
        if not missing:
            open_folder(folder.path, wanted)
            return {}
        with connected(on, workers, memory) as client:
            open_folder(folder.path, wanted)  # not before: a cluster that is not there leaves no trace
            try:
                for point in finished_points(client, wanted, missing):
                    if point.sealed is None:
                        failed[point.key] = point.error
                    else:
                        folder.keep(point.key, point.sealed)
                    meter.advance()
            except OSError as error:
                line = in_one_line(error)
                raise ClusterError(f"the cluster is gone ({line}); what was finished is kept: start again") from None
    return failed
