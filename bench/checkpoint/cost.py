"""What a checkpoint costs: epochs with one beside epochs without, and its size.

Keyed running totals from CSV to CSV. Prints the ratio of the median epochs (target: at
most 1.15) and the size of the checkpoint directory over many epochs (it must not grow
with their number). `anabranch bench checkpoint/cost [--rows N] [-o FILE]`.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from bench.harness.timing import claims_in, ratio, record


class Trade(NamedTuple):
    ts: int
    symbol: int
    price: float


def total(sum_: float, trade: Trade) -> tuple[float, Trade]:
    sum_ += trade.price
    return sum_, Trade(trade.ts, trade.symbol, sum_)


def write_trades(path: Path, rows: int, keys: int) -> None:
    rng = random.Random(1)
    with path.open("w") as file:
        file.write("ts,symbol,price\n")
        for ts in range(rows):
            file.write(f"{ts},{rng.randrange(keys)},{rng.randrange(10_000) / 100}\n")


def epochs_s(
    trades: Path, out: Path, items: int, checkpoint: Path | str | None
) -> list[float]:
    """Return how long the epochs took, without the first two."""
    sink = ab.read_csv(trades, Trade).key_by("symbol").scan(total, 0.0).write_csv(out)
    job = ab.run(sink, checkpoint=checkpoint, epoch_items=items, degree=2)
    return list(job.metrics().epoch_s[2:])


def size_of(folder: Path) -> tuple[int, int]:
    """Return the bytes and the number of the files in a directory."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files), len(files)


def cost(
    folder: Path, items: int, keys: int, epochs: int, rounds: int
) -> dict[str, object]:
    """Compare runs with and without a checkpoint, in turn."""
    trades = folder / "trades.csv"
    write_trades(trades, items * epochs, keys)
    times: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds):
        for kept in (False, True):
            checkpoint = folder / f"checkpoint{number}" if kept else None
            out = folder / f"out{number}-{kept}"
            times[kept] += epochs_s(trades, out, items, checkpoint)
    without, with_ = (statistics.median(times[kept]) for kept in (False, True))
    return {
        "items per epoch": items,
        "keys": keys,
        "epoch without, ms": round(without * 1e3, 1),
        "epoch with, ms": round(with_ * 1e3, 1),
        "an epoch with a checkpoint over one without": ratio(times[True], times[False]),
    }


def growth(folder: Path, epochs: int, keys: int) -> dict[str, object]:
    """Return the size of the checkpoint after some and after all epochs."""
    sizes = {}
    for count in (epochs // 4, epochs // 2, epochs):
        trades = folder / f"trades{count}.csv"
        write_trades(trades, count * keys, keys)
        checkpoint = folder / f"growth{count}"
        epochs_s(trades, folder / f"grown{count}", keys, checkpoint)
        sizes[f"after {count} epochs"] = dict(
            zip(("bytes", "files"), size_of(checkpoint), strict=True)
        )
    return {"keys": keys, **sizes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--growth", type=int, default=200, help="epochs; 0: not")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="anabranch-cost-") as name:
        folder = Path(name)
        results: dict[str, object] = {
            "cost": cost(folder, given.items, given.keys, given.epochs, given.rounds)
        }
        if given.growth:
            results["growth"] = growth(folder, given.growth, 1_000)
    print(json.dumps(results, indent=2))
    record("checkpoint", claims_in("checkpoint", results))
    if given.output is not None:
        given.output.write_text(json.dumps(results, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
