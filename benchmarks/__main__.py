"""Print the table: `make bench`."""

import itertools
import sys

from rich.console import Console
from rich.table import Table

from benchmarks import explaining, forecasts, scale, solvers, theory, training


def main() -> None:
    table = Table(title="speed, as ratios in one run (compile time on both sides where training is timed)")
    for column in ("what", "measured", "aim"):
        table.add_column(column, justify="left" if column == "what" else "right")
    parts = (training, theory, solvers, scale, forecasts, explaining)  # the quick ones first
    for label, value, required in itertools.chain.from_iterable(part.rows() for part in parts):
        print(f"{label}: {value:.3g} ({required})", file=sys.stderr)
        table.add_row(label, f"{value:.3g}", required)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
