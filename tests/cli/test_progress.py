"""What a terminal shows while a job runs, and that nothing else sees it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from anabranch.cli.run import Meter, watch
from anabranch.errors import OperatorError
from anabranch.metrics.job_metrics import Metrics
from anabranch.signals import Signals


class ScriptedJob:
    """Ends after as many looks as there are metrics."""

    def __init__(self, *metrics, error=None):
        self._metrics = list(metrics)
        self._error = error

    status = "failed"  # should it come to that

    def wait(self, timeout):
        if self._metrics:
            return False
        if self._error is not None:
            raise self._error
        return True

    def metrics(self):
        return self._metrics.pop(0)


def at(elapsed_s, read, **others):
    engine = "spark" if others else "local"
    return Metrics(engine, "running", elapsed_s, read={"source": read}, **others)


def watched(job, *, terminal):
    written = io.StringIO()
    watch(job, Console(file=written, force_terminal=terminal, width=100), Signals())
    return written.getvalue()


def test_a_terminal_shows_what_was_read():
    job = ScriptedJob(at(1.0, 0), at(2.0, 5000, epochs=3), at(3.0, 9000, epochs=4))

    assert "9,000 items read  4,500 items/s  4 epochs  0:03" in watched(
        job, terminal=True
    )


def test_a_file_gets_no_progress():
    class Ended:
        def wait(self, timeout):
            return True

    assert "" == watched(Ended(), terminal=False)


def test_an_error_of_the_job_comes_through():
    job = ScriptedJob(at(1.0, 1), error=OperatorError("broken"))

    with pytest.raises(OperatorError, match="broken"):
        watched(job, terminal=True)


def test_the_rate_is_that_of_late():
    """
    Ten seconds of start-up, then 1,000 items a second: 26 samples later the start is
    forgotten.
    """
    meter = Meter()
    meter.line(at(10.0, 0))
    for second in range(1, 27):
        line = meter.line(at(10.0 + second, 1000 * second))

    assert "26,000 items read  1,000 items/s  0:36" == line


def test_several_sources_are_counted_together():
    metrics = Metrics("local", "running", 61.0, read={"left": 2, "right": 3})

    assert Meter().line(metrics).startswith("5 items read")
