"""Which names still reach what a generator has yielded."""

import pytest

from anabranch.python.loops import find_kept
from anabranch.python.lower import lower_callable


def made_in_each_turn(parts):
    for part in parts:
        row = [part]
        yield row


def made_before_the_loop(parts):
    row = []
    for part in parts:
        row.append(part)
        yield row


def made_in_some_turns(parts):
    row = []
    for part in parts:
        if part:
            row = []
        yield row


def read_after_the_yield(parts):
    for part in parts:
        row = [part]
        yield row
        row.clear()


def read_after_the_loop(parts):
    for part in parts:
        row = [part]
        yield row
    row.clear()


def taken_from_a_table(parts):
    rows = {}
    for part in parts:
        row = rows.setdefault(part, [])
        yield row


def used_by_an_inner_function(parts):
    row = []

    def clear():
        row.clear()

    yield row
    clear()


def put_into_another(parts):
    row, rows = [], []
    rows.append(row)
    yield rows
    row.clear()


def made_for_the_output(parts):
    for part in parts:
        yield [part]


def in_an_inner_loop(parts):
    for part in parts:
        row = []
        for each in part:
            row.append(each)
            yield row


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (made_in_each_turn, set()),
        (made_before_the_loop, {"row"}),
        (made_in_some_turns, {"row"}),
        (read_after_the_yield, {"row"}),
        (read_after_the_loop, {"row"}),
        (taken_from_a_table, {"rows"}),
        (used_by_an_inner_function, {"row", "clear"}),
        (put_into_another, {"row"}),
        (made_for_the_output, set()),
        (in_an_inner_loop, {"row"}),
    ],
)
def test_a_name_that_is_read_again_keeps_what_was_yielded(function, expected):
    code = lower_callable(function).code

    kept = {load.name for load in find_kept(code)} - {"part", "parts", "each"}

    assert expected == kept
