"""Each mode of a task has what it needs, and the others have none of it."""

from __future__ import annotations

import math

import pytest

from anabranch.epochs.checkpoint.record import IncompleteGroup
from anabranch.epochs.state.buckets import Stamp
from anabranch.epochs.task import (
    EpochAttempt,
    EpochTask,
    FinishOperators,
    InjectOutputs,
    ProcessRows,
    TaskStage,
    WarmUp,
)

BEGUN = {"u1": IncompleteGroup(2, b"...")}
MODES = {  # with rows, groups that were begun, cuts
    "warm up": (WarmUp(), range(0), {}, {}),
    "rows": (
        ProcessRows(range(3, 9), BEGUN, {0: "map"}),
        range(3, 9),
        BEGUN,
        {0: "map"},
    ),
    "finish": (FinishOperators(("scan",)), range(0), {}, {}),
    "inject": (InjectOutputs("scan", range(5, 6), BEGUN), range(5, 6), BEGUN, {}),
}


@pytest.mark.parametrize(("mode", "rows", "begun", "cuts"), MODES.values(), ids=MODES)
def test_a_task_has_what_its_mode_has(mode, rows, begun, cuts):
    task = EpochTask(TaskStage(range(1), (2,)), EpochAttempt(), mode)

    assert (rows, begun, cuts) == (task.rows, task.begun, task.cuts)
    assert math.inf == task.end_of(0)


def test_an_attempt_is_of_the_epoch_after_its_base():
    attempt = EpochAttempt(Stamp(3, 7), turn=8, attempt_id=42)

    assert (4, Stamp(4, 8, 42)) == (attempt.epoch, attempt.stamp)


PLACES = {  # of the failure, source -> first row that is left out
    "with one source": ((7,), [7.0]),
    "of the second of three sources": ((7, 1), [8.0, 7.0, 7.0]),
}


@pytest.mark.parametrize(("until", "ends"), PLACES.values(), ids=PLACES)
def test_a_repeated_try_leaves_out_the_rows_from_the_failure_on(until, ends):
    """
    Rows of the same number in an earlier source come before the failure.
    """
    mode = ProcessRows(range(100), until=until)

    assert ends == [mode.end_of(source) for source in range(len(ends))]
