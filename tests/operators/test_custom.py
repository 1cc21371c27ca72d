"""`scan` and `Operator` classes: state, and when each method is called."""

from __future__ import annotations

import pytest

from anabranch.errors import OperatorError
from anabranch.operators.custom import (
    Apply,
    ApplyKernel,
    Operator,
    Scan,
    ScanKernel,
    timer_queue_of,
)
from anabranch.operators.stateless import WINDOW
from tests.operators.driving import drive_items


class Diary(Operator):
    """Gives the name of each method that is called."""

    def __init__(self, owner, *, year):
        self.lines = [f"new {owner} {year}"]

    def setup(self):
        self.lines.append("setup")

    def process(self, item):
        lines, self.lines = [*self.lines, f"process {item}"], []
        return lines

    def punctuation(self):
        yield "punctuation"

    def finish(self):
        yield "finish"


def test_an_operator_is_made_set_up_fed_and_finished():
    kernel = ApplyKernel(Apply(Diary, ("ann",), (("year", 2026),)))

    assert [
        "new ann 2026",
        "setup",
        "process 1",
        "punctuation",
        "process 2",
        "finish",
    ] == drive_items(kernel, [1, WINDOW, 2])


def test_an_operator_without_items_is_finished_too():
    kernel = ApplyKernel(Apply(Diary, ("ann",), (("year", 2026),)))

    assert ["finish"] == drive_items(kernel, [])


def test_only_an_operator_that_defines_punctuation_is_asked():
    class Plain(Operator):
        def process(self, item):
            return [item]

    assert ApplyKernel(Apply(Diary)).handles_punctuation
    assert not ApplyKernel(Apply(Plain)).handles_punctuation


def test_state_that_was_changed_before_an_error_stays_changed():
    class Fussy(Operator):
        def setup(self):
            self.n = 0

        def process(self, item):
            self.n += 1
            if item < 0:
                raise ValueError(item)
            return [self.n]

    kernel = ApplyKernel(Apply(Fussy))
    state = kernel.open()
    with pytest.raises(ValueError, match="-1"):
        kernel.process(state, -1, 0)

    assert [2] == kernel.process(state, 1, 0)


def test_scan_carries_its_state():
    kernel = ScanKernel(Scan(lambda total, n: (total + n, total), 10))

    assert [10, 11, 13] == drive_items(kernel, [1, 2, 3])


def test_scan_starts_every_key_from_a_value_of_its_own():
    def remember(seen, item):
        seen.append(item)
        return seen, len(seen)

    kernel = ScanKernel(Scan(remember, []))

    assert [1, 2] == drive_items(kernel, "ab")
    assert [1] == drive_items(kernel, "c")


def test_scan_keeps_its_state_when_step_fails():
    kernel = ScanKernel(Scan(lambda total, n: (total + 1, 1 // n), 0))
    state = kernel.open()
    kernel.process(state, 1, 0)

    with pytest.raises(ZeroDivisionError):
        kernel.process(state, 0, 0)

    assert [1] == state


@pytest.mark.parametrize("result", [3, (1,), (1, 2, 3), [1, 2], None])
def test_scan_wants_a_pair(result):
    kernel = ScanKernel(Scan(lambda state, item: result, 0))

    with pytest.raises(OperatorError, match="must return"):
        kernel.process(kernel.open(), 1, 0)


def test_timers_of_an_older_checkpoint_are_put_in_order():
    operator = Operator()
    operator.__dict__["_timers"] = {5: True, 3: False, 4.5: True}

    assert [3, 4.5, 5] == [time for *_, time in timer_queue_of(operator)]
