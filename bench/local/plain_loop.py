"""Claim: from CSV to CSV the local engine is four times as fast as a plain Python loop.

Both sides read the same file of trades and write a file of prices: through a chain of
four small functions, as a running VWAP for each symbol, and as a VWAP of each 100 trades
of a symbol. The engine has one thread for them. The loop has one thread,
`csv.reader` and `csv.writer`, and calls the same functions. On the engine's side all
counts that a user waits for: compiling the program, starting it and its control, and
making the file visible. The files must be the same but for the line ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import anabranch as ab
from bench.harness.local_run import report
from bench.harness.timing import claim, interleaved, ratio, sized
from bench.harness.trades import JOBS, Trade, make_trades, plain

ROWS = 2_000_000
NAMES = {
    "chain": "four functions",
    "vwap": "running VWAP by symbol",
    "window": "VWAP of 100 trades by symbol",
}
AT_LEAST = 4.0


def by_hand(job: str, source: Path, rows: int, target: Path) -> Callable[[], None]:
    return lambda: plain(job, source, 0, rows, target)


def by_engine(job: str, source: Path, target: Path) -> Callable[[], None]:
    def run() -> None:
        target.unlink(missing_ok=True)
        sink = JOBS[job](ab.read_csv(source, Trade)).write_csv(target)
        ab.run(sink, on="local", degree=1)

    return run


def main() -> None:
    rows = sized(ROWS, 20_000)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        source = make_trades(Path(folder) / "trades.csv", rows)
        for job, name in NAMES.items():
            loop, local = Path(folder) / "loop.csv", Path(folder) / "local.csv"
            sides = {
                "loop": by_hand(job, source, rows, loop),
                "local": by_engine(job, source, local),
            }
            times = interleaved(sides, repetitions=5)
            assert loop.read_bytes().replace(b"\r\n", b"\n") == local.read_bytes()
            results[name] = ratio(times["loop"], times["local"])
    claims = [
        claim(f"CSV to CSV, {name}: speed of local / loop", found, at_least=AT_LEAST)
        for name, found in results.items()
    ]
    report("plain loop", results, claims=claims)


if __name__ == "__main__":
    main()
