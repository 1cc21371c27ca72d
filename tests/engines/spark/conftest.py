"""What tests of the engine on Spark share."""

from __future__ import annotations

import pytest

from anabranch.engines.spark import residence
from anabranch.epochs.checkpoint import directory as checkpoint_upkeep
from anabranch.epochs.division import Division
from anabranch.epochs.epoch_stages import EpochStages
from tests.engines.spark.imitation import Cluster, imitated


@pytest.fixture
def divisions(monkeypatch) -> list[Division]:
    """How each epoch that ran was divided."""
    found = []
    check = EpochStages.refuse_missing

    def note(self, division, *given):
        found.append(division)
        return check(self, division, *given)

    monkeypatch.setattr(EpochStages, "refuse_missing", note)
    return found


@pytest.fixture
def a_job_for_each_epoch(monkeypatch) -> None:
    """No tasks stay: each epoch is a Spark job."""
    monkeypatch.setattr(
        residence, "why_not_resident", lambda *_: "a test asks for jobs"
    )


@pytest.fixture
def cluster_of(monkeypatch, tmp_path):
    """Make a cluster that every job of the test runs on."""
    monkeypatch.setattr(checkpoint_upkeep, "_LEAST", 1)  # snapshots in every epoch
    entered = []

    def made(run_task, hosts=1, in_driver=lambda place, epoch: None) -> Cluster:
        cluster = Cluster(run_task, hosts)
        context = imitated(monkeypatch, cluster, tmp_path / "hosts", in_driver)
        context.__enter__()
        entered.append(context)
        return cluster

    yield made
    for context in entered:
        context.__exit__(None, None, None)
