"""How long a job takes to get its states back on Spark, against writing them.

    anabranch bench spark/recovery [--keys 1000000] [--runs 5]

A keyed count with a checkpoint takes in every key once, over ten epochs, and is
stopped. Then the host's own copy of the states is removed, as if the job came up on
another host, and the job goes on: its first epoch touches every bucket and so restores
all keys. Its time, beyond that of the second one, against the ten epochs that wrote
the keys. Target: at most 3 times.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from anabranch.engines.spark.session import open_session
from anabranch.epochs.state.restore import local_directory, name_states
from bench.harness.timing import ratio, report

EPOCHS = 10


class Touch(NamedTuple):
    key: int


def count(state: int, touch: Touch) -> tuple[int, Touch]:
    return state + 1, touch


def counted(items: range | list[int], checkpoint: Path, rows: int, epochs: int):
    """Run some epochs of the job, stop it, and return what each took, in seconds."""
    touches = ab.from_iterable(items, int).map(Touch).key_by("key")
    sink = touches.scan(count, 0).filter(lambda _: False).to_list()
    job = ab.start(sink, checkpoint=checkpoint, epoch_items=rows, degree=2)
    while job.metrics().epochs < epochs and not job.wait(0.01):
        time.sleep(0.005)
    job.stop()
    return list(job.metrics().epoch_s[:epochs])


def once(folder: Path, keys: int) -> tuple[float, float]:
    """Return the seconds to write all keys, and those to have them back."""
    checkpoint = Path(tempfile.mkdtemp(dir=folder)) / "checkpoint"
    rows = keys // EPOCHS
    items = range(2 * keys)  # twice as many as are taken
    wrote_s = sum(counted(items, checkpoint, rows, EPOCHS))
    identity = json.loads((checkpoint / "program.json").read_text())["identity"]
    states = local_directory(name_states(identity, checkpoint.resolve()))
    shutil.rmtree(states)
    first_s, *later_s = counted(items, checkpoint, rows, 3)
    for used in (states, checkpoint):  # a task that was given up may still write
        shutil.rmtree(used, ignore_errors=True)
    return wrote_s, max(0.0, first_s - min(later_s))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", help="write the results to this file")
    given = parser.parse_args()
    open_session("local[2]")
    with tempfile.TemporaryDirectory(prefix="anabranch-recovery-") as name:
        pairs = [once(Path(name), given.keys) for _ in range(given.runs)]
    wrote, back = map(list, zip(*pairs, strict=True))
    results = {
        "s to write": [round(s, 2) for s in wrote],
        "s to have back": [round(s, 2) for s in back],
        "restoring over writing": ratio(back, wrote),
    }
    report("recovery", results, given.json)


if __name__ == "__main__":
    main()
