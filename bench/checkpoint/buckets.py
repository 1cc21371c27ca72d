"""What many buckets cost: small epochs of a keyed count with 16, 256 and 1,024 of them.

    anabranch bench checkpoint/buckets [--buckets 16 256 1024] [--epochs 60]

Two replicas touch 1,000 keys in each epoch, as their tasks do: they open the states, change
them and save them, on this host and in a checkpoint, which is committed. There is no
Spark. Measured are processor time, open files, files written and bytes of the checkpoint.
Sides take turns: each epoch of one is followed by one of the others.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anabranch as ab
from anabranch.epochs.checkpoint.directory import Checkpoint, Upkeep
from anabranch.epochs.checkpoint.program import program_of
from anabranch.epochs.checkpoint.record import Record, tidy
from anabranch.epochs.checkpoint.seal import NO_KEY
from anabranch.epochs.layout import lay_out
from anabranch.epochs.state.buckets import Versions
from anabranch.epochs.state.states import StoredStates
from anabranch.epochs.state.store import close_buckets
from anabranch.epochs.task import EpochAttempt, EpochTask, ProcessRows, TaskStage
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.unit.states import UnitStates
from anabranch.job import compile_sinks
from anabranch.runtime.interpreter import kernel_of
from bench.harness.timing import Table, claim, interleaved, ratio, report, sized

REPLICAS = 2
KEYS, TOUCHED = 20_000, 1_000
SETTLED = 10  # epochs that are not measured
AT_MOST = 1.5  # of many buckets over few


class Touch(NamedTuple):
    key: int


def count(state: int, touch: Touch) -> tuple[int, Touch]:
    return state + 1, touch


class Replicas:
    """The states of two replicas, and their checkpoint."""

    def __init__(self, folder: Path, buckets: int) -> None:
        self._folder, self._buckets = folder, buckets
        stream = ab.from_iterable([Touch(0)], Touch).key_by("key").scan(count, 0)
        made = compile_sinks(stream.to_list(), on="spark")
        layout = lay_out(made.graph, made.plan)
        self.checkpoint = Checkpoint(
            str(folder / "checkpoint"), program_of(layout, chains=())
        )
        self._unit = next(unit for unit in layout.units if unit.key)
        self._op = next(op for op in made.graph.ops if op.state_key)
        self._kernel = kernel_of(self._op)
        self._pickler = Pickler(made.graph)
        self._states = [self._open() for _ in range(REPLICAS)]
        self._versions: dict[str, Versions] = {}
        self._due: frozenset[tuple[str, int]] = frozenset()
        self._upkeep = Upkeep()
        self._rng = random.Random(1)
        self.record = Record()

    def _open(self) -> tuple[StoredStates, UnitStates]:
        own = StoredStates(0, self._op, self._kernel, self._unit.key)
        directory = str(self.checkpoint.directory)
        stored, host = {self._op.name: own}, self._folder / "host"
        return own, UnitStates(self._unit, stored, host, directory, NO_KEY)

    def run_epoch(self) -> float:
        """Return the processor time of an epoch, in seconds."""
        epoch = self.record.epoch + 1
        channels = [1] * (self._unit.number + 1)
        channels[self._unit.number] = REPLICAS
        stage = TaskStage(range(1), tuple(channels), buckets=self._buckets)
        touched = self._rng.sample(range(KEYS), TOUCHED)
        began_s = time.process_time()
        done = []
        for channel, (own, saved) in enumerate(self._states):
            attempt = EpochAttempt(
                self.record.stamp, epoch, (), channel, self._versions, self._due
            )
            task = EpochTask(stage, attempt, ProcessRows(range(1)))
            saved.open(task, channel, self._pickler)
            mine = set(stage.buckets_of(self._unit, channel))
            for key in touched:
                if own.find_bucket(key, self._buckets) in mine:
                    list(self._kernel.process(own[key], Touch(key), 0))
            done.append(saved.save(task, channel, saved.changes((self._op.name,))))
        before = self._versions.get(self._unit.name) or Versions.none(self._buckets)
        new = before.with_new((one.changed, one.stamp) for one in done)
        self._versions = {self._unit.name: new}
        logs = tuple(log for one in done for log in one.logs)
        snapshots = tuple(made for one in done for made in one.snapshots)
        record = Record(
            epoch,
            epoch,
            logs=self.record.logs + logs,
            snapshots=self.record.snapshots,
            buckets=self._buckets,
        )
        self.record = tidy(record, snapshots)
        self.checkpoint.commit(self.record, None)
        self._due = self._upkeep.due(self.record, logs, snapshots)
        return time.process_time() - began_s


def measure(
    folder: Path, counts: Sequence[int], epochs: int
) -> dict[int, dict[str, Any]]:
    """Return what was found of each number of buckets."""
    sides, opened = {}, {}
    for count in counts:
        before = count_open_files()
        sides[count] = Replicas(folder / f"{count}", count)
        for _ in range(SETTLED):
            sides[count].run_epoch()
        opened[count] = count_open_files() - before
    times = interleaved(
        {f"{count}": one.run_epoch for count, one in sides.items()}, epochs, warm_ups=0
    )
    for replicas in sides.values():
        replicas.checkpoint.close()
    close_buckets()
    return {
        count: describe(folder / f"{count}", times[f"{count}"], opened[count])
        for count in counts
    }


def count_open_files() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def describe(folder: Path, took_s: Sequence[float], opened: int) -> dict[str, Any]:
    """Return what epochs took, and what they left in a folder."""
    states = [p for p in folder.rglob("checkpoint/state/*/*") if p.is_file()]
    return {
        "ms an epoch": round(1000 * statistics.median(took_s), 2),
        "low": round(1000 * min(took_s), 2),
        "high": round(1000 * max(took_s), 2),
        "open files": opened,
        "state files kept": len(states),
        "KB of state files": sum(p.stat().st_size for p in states) // 1000,
        "bytes of the record": max(
            p.stat().st_size for p in folder.rglob("checkpoint/commits/*.json")
        ),
        "s": list(took_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--buckets", type=int, nargs="+", default=[16, 256, 1024])
    parser.add_argument("--epochs", type=int, default=sized(60, 10))
    parser.add_argument("--json", help="write the results to this file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="anabranch-buckets-") as name:
        found = measure(Path(name), given.buckets, given.epochs)
    took_s = {buckets: one.pop("s") for buckets, one in found.items()}
    few, many = given.buckets[0], given.buckets[-1]
    claims = [
        claim(
            f"an epoch of {TOUCHED:,} keys with {many:,} buckets over {few}",
            ratio(took_s[many], took_s[few]),
            at_most=AT_MOST,
            remark="processor time of opening and saving states, and of the commit; "
            "the spread is that of pairs of epochs",
        )
    ]
    rows = [(buckets, *one.values()) for buckets, one in found.items()]
    table = Table("Buckets", ["buckets", *found[few]], rows)
    report("buckets", found, given.json, claims=claims, tables=[table])


if __name__ == "__main__":
    main()
