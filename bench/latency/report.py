"""Print, keep and draw what the benchmarks of latency goals find."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.harness.timing import Claim, Table, record

OUT = Path("out")


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; numbers with two digits behind the point."""
    cells = [
        [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in [head, *rows]
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    _shown.append(Table(title, list(head), cells[1:]))
    print(title)
    for row in cells:
        print("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))
    print()


def keep(name: str, results: Mapping[str, Any]) -> None:
    """Write results to out/NAME.json."""
    OUT.mkdir(exist_ok=True)
    text = json.dumps(results, indent=2)
    (OUT / f"{name}.json").write_text(text, encoding="utf-8")
    record(name, _claims, _shown)
    _shown.clear()
    _claims.clear()


def hold(claims: Sequence[Claim]) -> None:
    """Add claims to the record."""
    _claims.extend(claims)


_shown: list[Table] = []  # for the record
_claims: list[Claim] = []


def plot(
    name: str,
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
) -> None:
    """Draw panels of lines, one above the other, to out/NAME.svg, where Matplotlib is there."""
    with suppress(ImportError):  # the figures are printed anyhow
        import matplotlib as mpl  # noqa: PLC0415 - only who plots pays for it

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415

        OUT.mkdir(exist_ok=True)
        figure, all_axes = plt.subplots(
            len(panels), 1, figsize=(8, 2.6 * len(panels)), squeeze=False
        )
        for axes, (title, lines) in zip(all_axes[:, 0], panels.items(), strict=True):
            for label, (xs, ys) in lines.items():
                style = "--" if label.startswith("bound") else "-"
                axes.plot(xs, ys, style, label=label, linewidth=1)
            axes.set_ylabel(title)
            axes.legend(fontsize=7)
        figure.tight_layout()
        figure.savefig(OUT / f"{name}.svg")
        print(f"drew {OUT / name}.svg")


def asked(word: str) -> bool:
    """Tell whether the command line has a word."""
    return word in sys.argv[1:]
