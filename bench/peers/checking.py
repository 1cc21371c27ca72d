"""Compare what a peer wrote with what the plain loop wrote."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

Row = tuple[int, str, float]  # ts, symbol, price
IN_ORDER = "all, in order"
PER_KEY = "all, in order per key"
UNORDERED = "all, in no order"


def verdict(expected: Path, target: Path) -> str:
    """Return in words what of the expected rows is there, and in which order."""
    wanted, found = list(rows_of(expected)), list(rows_of(target))
    if _same(wanted, found):
        return IN_ORDER
    if len(wanted) == len(found):
        if all(
            _same(mine, theirs)
            for mine, theirs in zip(_by_key(wanted), _by_key(found), strict=False)
        ):
            return PER_KEY
        if _same(sorted(wanted), sorted(found)):
            return UNORDERED
    prices = {row[:2]: row[2] for row in found}
    missing = [row for row in wanted if row[:2] not in prices]
    wrong = [
        row
        for row in wanted
        if row[:2] in prices and not _close(row[2], prices[row[:2]])
    ]
    extra = max(len(found) - len(wanted) + len(missing), 0)
    said = [
        f"{count:,} {word}"
        for count, word in (
            (len(missing), "missing"),
            (len(wrong), "wrong"),
            (extra, "too many"),
        )
        if count
    ]
    return f"{', '.join(said)} of {len(wanted):,}"


def rows_of(target: Path) -> Iterator[Row]:
    """Give the rows of a file, or of all files of a directory in the order of names."""
    files = [target]
    if target.is_dir():
        files = sorted(
            path
            for path in target.rglob("*")
            if path.is_file()
            and not any(
                part.startswith(("_", ".")) for part in path.relative_to(target).parts
            )
        )
    for file in files:
        with file.open(newline="") as lines:
            for row in csv.reader(lines):
                if row and row[0] != "ts":
                    yield int(row[0]), row[1], float(row[2])


def _by_key(rows: Iterable[Row]) -> list[list[Row]]:
    keys: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        keys[row[1]].append(row)
    return [keys[key] for key in sorted(keys)]


def _same(these: list[Row], those: list[Row]) -> bool:
    return len(these) == len(those) and all(
        a[:2] == b[:2] and _close(a[2], b[2]) for a, b in zip(these, those, strict=True)
    )


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-9)
