"""What tests of the engine on Spark share."""

from __future__ import annotations

import pytest

from anabranch.engines.spark import residence
from anabranch.engines.spark.loop import Epochs
from anabranch.epochs.division import Division


@pytest.fixture
def divisions(monkeypatch) -> list[Division]:
    """How each epoch that ran was divided."""
    found = []
    check = Epochs._refuse_missing

    def note(self, *given):
        found.append(self._division)
        return check(self, *given)

    monkeypatch.setattr(Epochs, "_refuse_missing", note)
    return found


@pytest.fixture
def a_job_for_each_epoch(monkeypatch) -> None:
    """No tasks stay: each epoch is a Spark job."""
    monkeypatch.setattr(
        residence, "why_not_resident", lambda *_: "a test asks for jobs"
    )
