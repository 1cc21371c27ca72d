"""Generated programs under schedules by chance: whoever dies, the outputs stay the same.

A seed gives a program (`tests.programs.generate`: fan-out and fan-in, keys, windows,
joins, blocks, rounds, clocks and timers) and a schedule as in `test_simulation`: attempts
and zombies of tasks, resident tasks, deaths of drivers, losses of power, on a disk and in
a store. Each driver that takes over has a degree of its own. The sinks are systems
outside, which the driver or the workers write; they must get each item once, in the order
of one thread.

    python -m tests.engines.spark.test_generated_kills --seeds 300:5000 --of timed
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import anabranch as ab
from anabranch.epochs.checkpoint import directory as upkeep
from anabranch.epochs.state import buckets
from tests import needs
from tests.connectors.own import AnyLedger
from tests.engines.spark.test_simulation import STORES, Schedule, Simulation
from tests.programs.compare import PROGRAMS, compile_once
from tests.programs.generate import (
    Program,
    first_difference,
    program,
    run_sequential,
)

QUICK, SHORT, ALL = 1, 2, 60  # the programs of seed 2 are short
DEGREES = (1, 2, 3)
EPOCHS = (3, 7, 20)


class GeneratedSimulation(Simulation):
    """A generated program under the schedule of a seed."""

    def __init__(
        self, patch: Any, folder: Path, seed: int, generated: Program, *, store: bool
    ) -> None:
        super().__init__(patch, folder, seed, store=store)
        self._options = {"on_error": "skip"} if generated.failing else {}
        self._epoch_items = self.schedule.chance.choice(EPOCHS)
        self.kept = [
            AnyLedger(
                folder / f"kept-{n}", in_workers=self.schedule.chance.random() < 0.5
            )
            for n in range(generated.text.count(".to_list()"))
        ]
        text = generated.text
        for number in range(len(self.kept)):
            text = text.replace(".to_list()", f".write(KEPT[{number}])", 1)
        names: dict[str, Any] = {"KEPT": self.kept}
        exec(compile(text, "<generated program>", "exec"), names)
        self._sinks = names["sinks"]
        # Not while Spark is imitated: the analysis would find the imitation.
        ab.compile(*self._sinks, on="spark", **self._options)

    def start(self, driver: int = 0) -> None:
        assert driver == 0, "two drivers would share a sink"
        ab.run(
            *self._sinks,
            epoch_items=self._epoch_items,
            degree=self.schedule.chance.choice(DEGREES),
            checkpoint=self._locate("checkpoint"),
            verify="off",
            **self._options,
        )

    def run(self) -> None:
        self.drive_to_the_end()


def simulate(folder: Path, seed: int, of: str) -> Schedule:
    """Run a generated program under a schedule; raise unless its outputs are right."""
    generated = program(seed, **PROGRAMS[of])
    expected = run_sequential(generated)
    with pytest.MonkeyPatch.context() as patch, compile_once():
        patch.setattr(upkeep, "_LEAST", 1)  # snapshots in every epoch
        patch.setattr(buckets, "_STORES", STORES)
        made = GeneratedSimulation(patch, folder, seed, generated, store=seed % 2 == 1)
        made.run()
    found = [one.rows() for one in made.kept]
    difference = first_difference(expected, found)
    assert difference is None, "\n".join(
        [difference, *made.schedule.log, str(generated)]
    )
    return made.schedule


@pytest.mark.parametrize("of", ["graphs", "timed", "fragile"])
@pytest.mark.parametrize(
    "seed", needs.quick(QUICK, range(SHORT, ALL)), ids=lambda seed: f"seed{seed}"
)
def test_a_generated_program_survives_its_kills(tmp_path, seed, of):
    simulate(tmp_path, seed, of)


def main() -> int:
    """Run schedules until the minutes are over, and count what happened."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", default=f"0:{ALL}", metavar="FIRST:LAST")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--of", choices=PROGRAMS, default="timed")
    chosen = parser.parse_args()
    first, last = map(int, chosen.seeds.split(":"))
    until_s = time.monotonic() + 60 * chosen.minutes
    warnings.simplefilter("ignore")
    happened: Counter[str] = Counter()
    failed = []
    for seed in range(first, last):
        if time.monotonic() > until_s:
            last = seed
            break
        with tempfile.TemporaryDirectory() as made:
            try:
                schedule = simulate(Path(made), seed, chosen.of)
            except Exception as error:  # noqa: BLE001 - the next seeds run all the same
                failed.append(seed)
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)  # noqa: T201 - a tool
            else:
                happened["deaths of drivers"] += schedule.deaths
                for words in ("power", "zombie", "is lost"):
                    happened[words] += sum(words in line for line in schedule.log)
        if seed % 20 == 0:
            gc.collect()
    told = f"{chosen.of}, seeds {first} to {last - 1}: {len(failed)} failed {failed}"
    print(f"{told}; {dict(happened)}")  # noqa: T201 - a tool
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
