"""A reserve of memory, for a job that runs out of it."""

import pytest

from anabranch.errors import EngineError
from anabranch.runtime import memory_reserve as reserve


@pytest.fixture(autouse=True)
def no_reserve(monkeypatch):
    monkeypatch.setattr(reserve, "_held", [])


def test_the_reserve_is_given_back_when_memory_runs_out_and_not_before():
    reserve.set_aside()
    reserve.set_aside()
    (held,) = reserve._held
    reserve.release_for(KeyError("symbol"))
    assert not held.closed

    reserve.release_for(MemoryError())

    assert held.closed
    reserve.set_aside()
    assert 1 == len(reserve._held)


def test_a_job_that_cannot_have_a_reserve_does_without(monkeypatch):
    monkeypatch.setattr(reserve, "_BYTES", 1 << 62)

    reserve.set_aside()

    assert [] == reserve._held


def test_a_lack_of_memory_is_told_with_what_to_do():
    error = MemoryError()
    told = reserve.explain_lack(error)

    assert isinstance(told, EngineError)
    assert error is told.__cause__
    assert "allow the process more" in str(told)
