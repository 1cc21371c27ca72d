"""One file of a killed job is damaged, and the job runs again: to its end.

A seed says where the driver was killed, whether the states of the hosts are still there,
which file of the checkpoint or of the outputs is damaged, and how: a flipped bit, a
part that is cut off or zeroed, a file that is gone or has the content of another one. The
outputs must be those of one thread, or the job must refuse and name what is wrong. More:

    python -m tests.engines.spark.test_corruptions --seeds 0:5000

The program and the imitation of Spark are those of `test_simulation`.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.epochs.checkpoint import directory as upkeep
from anabranch.epochs.faults import IN_DRIVER
from anabranch.epochs.state import buckets
from anabranch.epochs.state.store import close_buckets
from anabranch.errors import AnabranchError
from tests import needs
from tests.engines.spark.imitation import Cluster, Killed, imitated, undisturbed
from tests.engines.spark.test_simulation import STORES, Simulation, expected, hurry

QUICK, ALL = 4, 100
EPOCHS = (2, 3)
KILLS = [(place, epoch) for epoch in EPOCHS for place in IN_DRIVER[1:7]]
KILLS.append(("finished", 4))


class Campaign:
    """A job that is killed at each place once, then damaged and run again and again."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self._patch = patch
        self._folder = folder / "work"  # always the same: one compilation
        self._killed = folder / "killed"
        self._patch.setattr(upkeep, "_LEAST", 1)  # snapshots in every epoch
        self._patch.setattr(upkeep, "_LISTED", 2)  # files that list parts
        self._patch.setattr(buckets, "_STORES", STORES)

    def run(self, seed: int) -> str:
        """Damage one file and run the job to its end; return what became of it."""
        chance = random.Random(seed)
        kill = chance.choice(KILLS)
        shutil.copytree(self._find_killed(kill), self._folder)
        try:
            if chance.random() < 0.8:
                shutil.rmtree(self._folder / "hosts", ignore_errors=True)
            return self._run_again(chance, kill)
        finally:
            close_buckets()
            shutil.rmtree(self._folder)

    def _run_again(self, chance: random.Random, kill: tuple[str, int]) -> str:
        job = self._folder / "job"
        files = [one for one in sorted(job.rglob("*")) if one.is_file()]
        victim = chance.choice([one for one in files if one.name != "lock"])
        how = damage(victim, files, chance)
        at = victim.relative_to(job).as_posix()
        told = f"{how} {at}, killed at {kill}"
        simulation = Simulation(self._patch, self._folder, 0, exist_ok=True)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", RuntimeWarning)
            try:
                self._drive(simulation, None)
            except AnabranchError as error:
                text = str(error)
                assert any(name in text for name in list_names(job, victim)), (
                    f"{told}: {text}"
                )
                return "refused"
        sums, windows = expected()
        assert (sums, windows, sums, sums) == simulation.outputs(), told
        return "went back" if said else "same"

    def _find_killed(self, kill: tuple[str, int]) -> Path:
        """Return the files of the job that was killed there."""
        kept = self._killed / f"{kill[0]}-{kill[1]}"
        if not kept.exists():
            self._folder.mkdir()
            self._drive(Simulation(self._patch, self._folder, 0), kill)
            close_buckets()
            self._killed.mkdir(exist_ok=True)
            self._folder.rename(kept)
        return kept

    def _drive(self, simulation: Simulation, kill: tuple[str, int] | None) -> None:
        def in_driver(place: str, epoch: int) -> None:
            if (place, epoch) == kill:
                raise Killed

        with imitated(self._patch, Cluster(undisturbed), simulation.hosts, in_driver):
            if kill is None:
                simulation.start()
                return
            with contextlib.suppress(Killed):
                simulation.start()
                pytest.fail(f"the driver did not come to {kill}")


def list_names(job: Path, victim: Path) -> list[str]:
    """Return what an error may name: the file, its folder, its output.

    A part has a number before its name until it is published. Where the only record is
    gone, the job is a new one, and a sink that has an epoch of it already refuses it.
    """
    output = victim.relative_to(job).parts[0].strip(".").partition(".")[0]
    names = [victim.name, victim.parent.name, victim.name.partition(".")[2], output]
    return [*names, "sink 'write'"] if victim.parent.name == "commits" else names


def damage(victim: Path, files: list[Path], chance: random.Random) -> str:
    """Damage a file; return how."""
    data = victim.read_bytes()
    how = chance.choice(["flip", "flip", "flip", "cut", "zero", "remove", "swap"])
    at = chance.randrange(len(data)) if data else 0
    if how == "remove":
        victim.unlink()
    elif how == "swap":
        alike = [one for one in files if one.suffix == victim.suffix]
        victim.write_bytes(chance.choice(alike).read_bytes())
    elif how == "cut":
        victim.write_bytes(data[:at])
    elif how == "zero":
        end = chance.randint(at, len(data))
        victim.write_bytes(data[:at] + bytes(end - at) + data[end:])
    elif data:
        flipped = bytearray(data)
        flipped[at] ^= 1 << chance.randrange(8)
        victim.write_bytes(flipped)
    return how


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Iterator[Campaign]:
    with pytest.MonkeyPatch.context() as patch, hurry():
        yield Campaign(patch, tmp_path_factory.mktemp("campaign"))


@pytest.mark.parametrize("seed", needs.quick(QUICK, range(ALL)))
def test_a_damaged_file_is_named_or_does_no_harm(campaign, seed):
    campaign.run(seed)


def main() -> int:
    """Run seeds and count what became of them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", default=f"0:{ALL}", metavar="FIRST:LAST")
    parser.add_argument("--minutes", type=float, default=60)
    chosen = parser.parse_args()
    first, last = map(int, chosen.seeds.split(":"))
    until_s = time.monotonic() + 60 * chosen.minutes
    outcomes: Counter[str] = Counter()
    with (
        pytest.MonkeyPatch.context() as patch,
        hurry(),
        tempfile.TemporaryDirectory() as made,
    ):
        campaign = Campaign(patch, Path(made))
        for seed in range(first, last):
            if time.monotonic() > until_s:
                last = seed
                break
            try:
                outcomes[campaign.run(seed)] += 1
            except Exception as error:  # noqa: BLE001 - the next seeds run all the same
                outcomes["failed"] += 1
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)  # noqa: T201 - a tool
    print(f"seeds {first} to {last - 1}: {dict(outcomes)}")  # noqa: T201 - a tool
    return 1 if outcomes["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
