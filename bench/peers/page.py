"""The tables of a comparison, on a terminal and as a page of the docs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.harness.timing import Table, cell_text
from bench.peers.contestants import PEERS

INTRO = """\
# Anabranch beside its peers

Four jobs, each from a CSV file of trades to CSV, by the same Python functions on one trade
([bench/harness/trades.py](../bench/harness/trades.py)): a chain of three maps and a filter; a running VWAP of each of 1,000 symbols; a
VWAP of each 100 trades of a symbol; a map that takes about 50 microseconds. Each peer is in an environment of its own,
which the bench makes, and its programs are in [bench/peers/programs](../bench/peers/programs). All take turns in one run.

Throughput is in thousand trades a second once the system is up. Those that stay up between jobs have one run to warm up;
where they start a query or a cluster for each job even so, what 1,000 trades take is taken off. For the others time counts
from when they begin to work. What comes out is compared with what the plain loop writes. Latency is that of the running
VWAP at 1,000 trades a second, from when a trade is sent to a socket to when the sink has its price. Lines are what a user
writes beside the functions on one trade.
"""


def tables_of(results: Mapping[str, Any]) -> list[Table]:
    """Return the tables: throughput, results, and the rest."""
    jobs, names = results["jobs"], results["peers"]

    def row(key: str, cell: Any) -> list[Any]:
        return [names[key], *(cell(found.get(key, {})) for found in jobs.values())]

    return [
        Table(
            "Throughput, in thousand trades a second: median (lowest to highest)",
            ["", *(f"{job}, {found['rows']:,} trades" for job, found in _sized(jobs))],
            [row(key, _rate) for key in names],
        ),
        Table(
            "What comes out, compared with the plain loop",
            ["", *jobs],
            [row(key, _verdict) for key in names],
        ),
        Table(
            "Start-up, latency at 1,000 trades a second, lines of user code",
            [
                "",
                "start-up, s",
                "latency p50, ms",
                "p99, ms",
                *(f"lines, {job}" for job in jobs),
            ],
            [
                [
                    names[key],
                    _start_up(jobs, key),
                    *_latency(results["latency"].get(key, {})),
                    *(found.get(key, {}).get("lines") for found in jobs.values()),
                ]
                for key in names
            ],
        ),
    ]


def _sized(jobs: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (job, {"rows": max(one.get("rows", 0) for one in found.values())})
        for job, found in jobs.items()
    ]


def _rate(found: Mapping[str, Any]) -> str:
    if "error" in found:
        return found["error"]
    if not found.get("rates"):
        return "-"
    low, middle, high = (
        round(pick(found["rates"]) / 1000, 1) for pick in (min, statistics.median, max)
    )
    fewer = f"; {found['rows']:,} trades" if found.get("fewer") else ""
    return f"{middle:g} ({low:g} to {high:g}{fewer})"


def _verdict(found: Mapping[str, Any]) -> str:
    return found.get("verdict", "-")


def _start_up(jobs: Mapping[str, Any], key: str) -> float | None:
    times = [
        s for found in jobs.values() for s in found.get(key, {}).get("start_up_s", [])
    ]
    return round(statistics.median(times), 2) if times else None


def _latency(found: Mapping[str, Any]) -> list[Any]:
    if "error" in found:
        return [found["error"], None]
    return [found.get("p50_ms"), found.get("p99_ms")]


def markdown(shown: Table) -> str:
    """Return a table as Markdown."""
    rows = [shown.head, ["---"] * len(shown.head), *shown.rows]
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(cell: Any) -> str:
    return cell_text(cell).replace("|", "\\|")


def write_page(path: Path, results: Mapping[str, Any], command: str) -> None:
    """Write the page with the date and the command."""
    today = datetime.now(UTC).date().isoformat()
    parts = [
        INTRO,
        f"Measured on {today} on {results['cores']} cores by\n`{command}`.\n",
    ]
    parts += [f"{one.title}:\n\n{markdown(one)}" for one in tables_of(results)]
    remarks = [
        f"- {name}: {PEERS[key].remark}."
        for key, name in results["peers"].items()
        if PEERS[key].remark
    ]
    path.write_text("\n".join([*parts, *remarks]) + "\n", encoding="utf-8")
