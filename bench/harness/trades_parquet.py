"""The jobs over trades with Parquet, and what an output must be the same as.

In a file of its own: a plain process over CSV does not import Arrow.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from bench.harness.trades import PLAIN, Price, Trade


def plain_parquet(job: str, source: Path, start: int, rows: int, target: Path) -> None:
    """Do the same with a Parquet file, which Arrow reads and writes."""
    columns = pq.read_table(source).slice(start, rows).to_pydict().values()
    trades = (Trade(*row) for row in zip(*columns, strict=True))
    found: list[Price] = []
    PLAIN[job](trades, found.append)
    made = dict(zip(Price._fields, zip(*found, strict=True), strict=True))
    pq.write_table(pa.table({name: list(v) for name, v in made.items()}), target)


def make_parquet(source: Path) -> Path:
    """Write a file of trades once more, as Parquet."""
    target = source.with_suffix(".parquet")
    pq.write_table(pyarrow.csv.read_csv(source), target)
    return target


def why_different(plain_output: Path, parts: Path) -> str | None:
    """Return why an output in parts has other rows than a plain one, or None."""
    found = sorted(parts.glob("part*")) if parts.is_dir() else [parts]
    if plain_output.suffix == ".parquet":
        expected = pq.read_table(plain_output)
        made = pa.concat_tables([pq.read_table(part) for part in found])
        same = made.cast(expected.schema).equals(expected)
        return None if same else f"{parts} has other rows than {plain_output}"
    with plain_output.open("rb") as lines:
        head = next(lines).rstrip(b"\r\n")
        for part in found:
            with part.open("rb") as own:
                if next(own).rstrip(b"\n") != head:
                    return f"{part} has another header than {plain_output}"
                for number, line in enumerate(own, 2):
                    if next(lines, b"").replace(b"\r\n", b"\n") != line:
                        return f"line {number} of {part} is not in {plain_output}"
        return None if next(lines, None) is None else f"{parts} has fewer rows"


if __name__ == "__main__":  # one of two plain processes: JOB SOURCE START ROWS TARGET
    plain_parquet(
        sys.argv[1],
        Path(sys.argv[2]),
        int(sys.argv[3]),
        int(sys.argv[4]),
        Path(sys.argv[5]),
    )
