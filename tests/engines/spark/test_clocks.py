"""Programs behind a clock on Spark: any degree, also one that changes, and restarts.

On an imitation of Spark (see `imitation`), where replicas and epochs cost little.
"""

from __future__ import annotations

from random import Random

import pytest

import anabranch as ab
from anabranch.engines.spark.loop import Epochs
from tests import needs
from tests.engines.spark.imitation import Cluster, imitated
from tests.programs.generate import assert_same, program

LONG = (1002, 1016, 1023, 1028, 1030, 1053)  # programs of five epochs, mostly clocked


class CutOffError(Exception):
    """Ends a run between two epochs."""


def undisturbed(cluster, partition, body):
    attempt = cluster.attempt(partition, body)
    if attempt.error is not None:
        raise attempt.error
    return attempt.gave


@pytest.mark.parametrize("seed", needs.quick(2, range(500)))
def test_a_degree_that_changes_from_epoch_to_epoch_changes_nothing(
    seed, monkeypatch, tmp_path
):
    rng = Random(seed)
    epoch_items = rng.choice([7, 20, 40, 1000])
    run_epoch = Epochs.run

    def run_with_any_degree(self, pieces):
        self.degree = rng.randint(1, 5)
        run_epoch(self, pieces)

    monkeypatch.setattr(Epochs, "run", run_with_any_degree)

    def run(sinks):
        with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
            ab.run(*sinks, on="spark", degree=2, epoch_items=epoch_items)

    assert_same(program(seed, timed=True), run)


@pytest.mark.parametrize("seed", needs.quick(2, [*LONG, *range(1100, 1200)]))
def test_a_job_that_goes_on_from_its_checkpoint_gives_the_rest(
    seed, monkeypatch, tmp_path
):
    """
    Lists have what was delivered after the restart, so what both runs gave is the whole.
    """
    rng = Random(seed)
    last = rng.randint(1, 4)
    run_epoch = Epochs.run

    def run_until_interrupted(self, pieces):
        if self.stamp.epoch == last:
            raise CutOffError
        self.degree = rng.randint(1, 4)
        run_epoch(self, pieces)

    options = {"on": "spark", "degree": 3, "epoch_items": 12}
    generated = program(seed, timed=True)

    def run(sinks):
        before = generated.build()
        with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
            with monkeypatch.context() as patch:
                patch.setattr(Epochs, "run", run_until_interrupted)
                try:
                    ab.run(*before, checkpoint=tmp_path / "checkpoint", **options)
                except CutOffError:
                    again = True
                else:
                    again = False
            if again:
                ab.run(*sinks, checkpoint=tmp_path / "checkpoint", **options)
        for one, two in zip(before, sinks, strict=True):
            two.draft.kind.items[:0] = one.draft.kind.items

    assert_same(generated, run)
