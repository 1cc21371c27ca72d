"""A job whose checkpoint, output or input was damaged goes on rightly, or refuses.

On an imitation of Spark (see `imitation`); the driver is killed in its third epoch.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.epochs.checkpoint import directory as upkeep
from anabranch.epochs.state.store import close_buckets
from anabranch.errors import CheckpointError
from tests import needs
from tests.engines.spark.imitation import Cluster, Killed, imitated
from tests.engines.spark.test_attempts import won

ROWS = 60


def add(total: int, n: int) -> tuple[int, int]:
    return total + n, total + n


EXPECTED = [n * (n + 1) // 2 for n in range(ROWS)]


class Job:
    """Running sums of a file of numbers, to a directory and to one file."""

    def __init__(self, monkeypatch, folder: Path) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.input = folder / "numbers.jsonl"
        self.input.write_text("".join(f"{n}\n" for n in range(ROWS)))

    def run(self, *, kill: tuple[str, int] | None = None) -> list[str]:
        """Run the job to its end, or to where it is killed; return what it says."""

        def in_driver(place: str, epoch: int) -> None:
            if (place, epoch) == kill:
                raise Killed

        cluster = Cluster(lambda cluster, n, body: won(cluster.attempt(n, body)))
        numbers = ab.read_jsonl(self.input, int, name="numbers")
        sums = numbers.scan(add, 0)
        with (
            imitated(self.monkeypatch, cluster, self.folder / "hosts", in_driver),
            warnings.catch_warnings(record=True) as said,
        ):
            warnings.simplefilter("always", RuntimeWarning)
            with contextlib.suppress(Killed):
                ab.run(
                    sums.write_jsonl(self.folder / "parts"),
                    sums.write_jsonl(self.folder / "sums.jsonl"),
                    epoch_items=12,
                    degree=2,
                    checkpoint=self.folder / "checkpoint",
                )
        return [str(one.message) for one in said if one.category is RuntimeWarning]

    def read(self) -> list[list[int]]:
        parts = sorted((self.folder / "parts").glob("part-*"))
        texts = ["".join(map(Path.read_text, parts))]
        texts.append((self.folder / "sums.jsonl").read_text())
        return [[int(line) for line in text.split()] for text in texts]


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setattr(upkeep, "_LEAST", 1)  # snapshots in every epoch
    monkeypatch.setattr(upkeep, "_LISTED", 3)  # files that list parts
    yield Job(monkeypatch, tmp_path)
    close_buckets()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("place", ["committed", "half-published", "delivered"])
@pytest.mark.parametrize("forget", needs.quick(1, [True, False]))
def test_a_damaged_record_sends_the_job_back_one_epoch(job, place, forget):
    """
    Its states may be on this host, or have to be restored.
    """
    assert [] == job.run(kill=(place, 3))
    flip(job.folder / "checkpoint" / "commits" / "000000003.json")
    if forget:
        (job.folder / "hosts").rename(job.folder / "elsewhere")
        close_buckets()

    (said,) = job.run()

    assert "goes back to epoch 2" in said
    assert "000000003.json cannot be read" in said
    assert "epochs 3 to 3" in said
    assert [EXPECTED, EXPECTED] == job.read()


def test_a_damaged_state_sends_the_job_back_one_epoch(job):
    job.run(kill=("published", 3))
    newest = next((job.folder / "checkpoint" / "state").rglob("log-000000003-*"))
    flip(newest)

    (said,) = job.run()

    assert newest.name in said
    assert [EXPECTED, EXPECTED] == job.read()


def test_a_record_that_is_gone_is_asked_for(job):
    job.run(kill=("published", 3))
    (job.folder / "checkpoint" / "commits" / "000000003.json").unlink()

    with pytest.raises(CheckpointError, match=r"put back .* among its commits"):
        job.run()


def test_a_damaged_list_of_parts_is_named(job):
    job.run(kill=("delivered", 3))
    for path in (job.folder / "checkpoint" / "parts").iterdir():
        flip(path)

    with pytest.raises(CheckpointError, match=r"parts/00000000\d-\d+\.json"):
        job.run()


@pytest.mark.parametrize("epoch", needs.quick(1, [3, 1]))
@pytest.mark.parametrize("cut", [False, True])
def test_a_damaged_part_is_named(job, epoch, cut):
    job.run(kill=("delivered", 3))
    part = job.folder / "parts" / f"part-00000000{epoch}-0000.jsonl"
    if cut:
        part.write_bytes(part.read_bytes()[:-3])
    else:
        flip(part)

    with pytest.raises(CheckpointError, match=f"{part.name} of 'write_jsonl'"):
        job.run()


def test_a_part_that_is_cut_off_while_the_job_runs_is_named(job):
    job.run(kill=("finished", 6))
    (stages,) = job.folder.glob(".sums.jsonl.*.stages")
    flip(stages / "parts" / "part-000000002-0000.jsonl")

    with pytest.raises(CheckpointError, match=r"part-000000002-0000\.jsonl"):
        job.run()


def test_an_input_that_was_rewritten_is_refused(job):
    job.run(kill=("delivered", 3))
    job.input.write_text(job.input.read_text().replace("17\n", "71\n"))

    with pytest.raises(CheckpointError, match=r"numbers\.jsonl was changed before"):
        job.run()


def test_an_input_that_has_grown_is_read_on(job):
    text = job.input.read_text()
    job.input.write_text(text.partition("50\n")[0])
    job.run(kill=("delivered", 3))
    job.input.write_text(text)
    os.utime(job.input, ns=(10**18, 10**18))

    assert [] == job.run()

    assert [EXPECTED, EXPECTED] == job.read()
