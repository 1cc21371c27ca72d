"""Jobs on Spark that are stopped, and what they leave."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import pytest

import anabranch as ab

pytestmark = pytest.mark.spark


def wait_until(holds, job):
    while not holds():
        assert "running" == job.status, job.error
        time.sleep(0.02)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def slowly(n: int) -> int:
    return sum([n] + [0] * 100_000)


def numbers(count=100_000):
    return ab.from_iterable(range(count), int).map(slowly, type=int)


def test_a_stopped_job_leaves_no_output(tmp_path):
    job = ab.start(numbers().write_csv(tmp_path / "out"), epoch_items=50, degree=1)
    wait_until(lambda: job.metrics().epochs >= 1, job)

    job.stop()

    assert ("stopped", "nothing") == (job.status, job.written)
    assert [] == files(tmp_path)


def test_with_a_checkpoint_the_next_run_goes_on(tmp_path):
    def start(**options):
        sink = numbers(300).write_csv(tmp_path / "out")
        return ab.start(
            sink, epoch_items=50, checkpoint=tmp_path / "state", degree=1, **options
        )

    job = start()
    wait_until(lambda: job.metrics().epochs >= 1, job)
    job.stop()
    left = (job.status, job.written, "_SUCCESS" in files(tmp_path / "out"))
    start().wait()

    assert ("stopped", "a part", False) == left
    lines = [
        line
        for part in sorted((tmp_path / "out").glob("part-*"))
        for line in part.read_text().splitlines()[1:]
    ]
    assert list(map(str, range(300))) == lines
    assert "_SUCCESS" in files(tmp_path / "out")


def test_stopping_is_how_a_live_job_ends(tmp_path):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "one.txt").write_text("a\nb\n")
    out = tmp_path / "out"
    job = ab.start(ab.read_text(inbox, follow=True).write_csv(out), degree=1)
    wait_until(lambda: job.metrics().delivered == {"write_csv": 2}, job)

    job.stop()

    assert ("stopped", "all so far") == (job.status, job.written)
    assert "_SUCCESS" in files(out)
    (part,) = out.glob("part-*")
    assert "value\na\nb\n" == part.read_text()


def test_a_task_that_does_not_return_is_cancelled_and_its_operator_named(
    spark, tmp_path
):
    begun = str(tmp_path / "begun")

    @ab.declare(state="stateless")
    def stuck(n: int) -> int:
        if n == 7:
            Path(begun).touch()
            time.sleep(3600)
        return n

    stream = ab.from_iterable(range(100), int).map(stuck, name="stuck")
    job = ab.start(stream.write_csv(tmp_path / "out"), degree=1)
    wait_until(Path(begun).exists, job)

    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        job.stop(grace_s=2)

    assert ("stopped", "nothing") == (job.status, job.written)
    assert "'stuck'" in job.hung
    assert ["begun"] == files(tmp_path)
    assert () == tuple(spark.sparkContext.statusTracker().getActiveJobsIds())


class Heavy:
    """Takes long to be loaded by another process, as a large model does."""

    def __init__(self, loading):
        self.loading = loading

    def __reduce__(self):
        return load_heavy, (self.loading, os.getpid())


def load_heavy(loading, pid):
    if os.getpid() != pid:
        Path(loading).touch()
        time.sleep(60)
    return Heavy(loading)


def test_a_stop_while_workers_are_started_waits_for_nothing(tmp_path):
    heavy = Heavy(str(tmp_path / "loading"))

    @ab.declare(state="stateless")
    def use(n: int) -> bool:
        return n < len(heavy.loading)

    job = ab.start(ab.from_iterable(range(9), int).filter(use).to_list(), degree=1)
    wait_until(Path(heavy.loading).exists, job)

    job.stop(grace_s=30)

    assert ("stopped", None) == (job.status, job.hung)
