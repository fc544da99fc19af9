"""Print the table: `make bench`."""

import sys

from rich.console import Console
from rich.table import Table

from benchmarks import explaining, foreseeing, scale, theory, training


def main() -> None:
    table = Table(title="speed, as ratios in one run (compile time on both sides where training is timed)")
    for column in ("what", "measured", "required"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for label, value, required in (
        *explaining.rows(),
        *foreseeing.rows(),
        *training.rows(),
        *theory.rows(),
        *scale.rows(),
    ):
        print(f"{label}: {value:.2f} ({required})", file=sys.stderr)
        table.add_row(label, f"{value:.2f}", required)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
