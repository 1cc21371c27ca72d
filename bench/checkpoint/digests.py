"""What digests cost: their share of an epoch of 200,000 rows that changes 20,000 keys.

The rows are read from CSV, folded by key and written to CSV by one thread, the changed
states are written to a log. Digests are those of the input, of the log and of the part,
as an epoch with a checkpoint makes them. CPU time; target: at most 0.02.
`anabranch bench checkpoint/digests [--rows N] [--keys N]`.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from pathlib import Path

import anabranch as ab
from anabranch.connectors.files.input_files import InputDigest
from anabranch.epochs.checkpoint.files import write_log
from anabranch.epochs.checkpoint.seal import NO_KEY, Seal
from bench.checkpoint.cost import Trade, total, write_trades
from bench.harness.timing import claim, interleaved, ratio, report, sized


class Epoch:
    """The work of an epoch, and that of its digests."""

    def __init__(self, folder: Path, rows: int, keys: int) -> None:
        self.folder = folder
        self.trades = folder / "trades.csv"
        self.log = folder / "log"
        self.count = 0
        write_trades(self.trades, rows, keys)
        states = {b"\0\x000000/%d" % k: pickle.dumps((k, [k / 7])) for k in range(keys)}
        self.changes = sorted(states.items())
        self.run()

    def run(self) -> None:
        """Read, fold and write the rows, and log the states."""
        self.count += 1
        self.part = self.folder / f"part{self.count}.csv"
        sums = ab.read_csv(self.trades, Trade).key_by("symbol").scan(total, 0.0)
        ab.run(sums.write_csv(self.part), on="sequential")
        write_log(self.log, self.changes, _NoDigest())

    def digest(self) -> None:
        """Make the digests of what the epoch reads and writes."""
        made = InputDigest(self.trades)
        made.look_again()
        made.feed(self.trades.read_bytes())
        made.position()
        NO_KEY.digest(self.log.read_bytes())
        NO_KEY.digest_file(self.part)


class _NoDigest(Seal):
    """A seal that costs nothing, for comparison."""

    def digest(self, data: bytes | memoryview) -> str:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=sized(200_000, 5_000))
    parser.add_argument("--keys", type=int, default=sized(20_000, 500))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="anabranch-digests-") as name:
        epoch = Epoch(Path(name), given.rows, given.keys)
        times = interleaved(
            {"digests": epoch.digest, "epoch": epoch.run}, clock=time.process_time
        )
    share = ratio(times["digests"], times["epoch"])
    report(
        "digests",
        {"rows": given.rows, "keys": given.keys, "seconds": times},
        claims=[claim("digests over the epoch that they protect", share, at_most=0.02)],
    )


if __name__ == "__main__":
    main()
