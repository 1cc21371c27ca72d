"""An operator that has state after all stops the job on the local engine."""

from __future__ import annotations

import pytest

import anabranch as ab
from anabranch.errors import ArgumentError, RefutedError
from tests.runtime.verify.cases import mislead, run_misled

SEEN: list[int] = []


def number(item):
    SEEN.append(item)
    return len(SEEN)


def make_counter():
    n = 0

    def count(item):
        nonlocal n
        n += 1
        return (n, item)

    return count


def read_size(item):
    return (len(SEEN), item)


def note(item):
    SEEN.append(item)


@pytest.fixture(autouse=True)
def _empty():
    SEEN.clear()


@pytest.mark.parametrize("verify", ["sample", "all"])
@pytest.mark.parametrize("degree", [1, 3])
def test_a_global_that_changes_stops_the_job(verify, degree):
    out = ab.from_iterable(range(60)).map(number, name="number").to_list()
    made = mislead([out], "local", [number])

    with pytest.raises(RefutedError) as told:
        run_misled(made, "local", degree=degree, verify=verify)

    text = str(told.value)
    assert "'number'" in text
    assert "test_verify.py" in text
    assert "global SEEN has changed: a list of 0, then a list of" in text
    assert "ab.declare" in text


def test_a_variable_of_a_closure_that_changes_stops_the_job():
    count = make_counter()
    out = ab.from_iterable(range(60)).map(count, name="count").to_list()
    made = mislead([out], "local", [count])

    with pytest.raises(RefutedError, match="n has changed: 0, then"):
        run_misled(made, "local", degree=2)


def test_what_another_operator_changes_stops_the_job():
    items = ab.from_iterable(range(60))
    sinks = [items.map(read_size).to_list(), items.for_each(note)]
    made = mislead(sinks, "local", [read_size, note])

    with pytest.raises(RefutedError, match="global SEEN has changed"):
        run_misled(made, "local", degree=2)


def test_a_failure_policy_does_not_hide_it(tmp_path):
    path = tmp_path / "out.csv"
    out = ab.from_iterable(range(60)).map(number).write_csv(path)
    made = mislead([out], "local", [number], on_error="skip")

    with pytest.raises(RefutedError):
        run_misled(made, "local", degree=2, on_error=ab.runtime.failures.skip)

    assert not path.exists()


def test_without_verification_nothing_is_said():
    out = ab.from_iterable(range(60)).map(number).to_list()
    made = mislead([out], "local", [number])

    assert run_misled(made, "local", degree=2, verify="off").status == "finished"


def test_what_the_author_declares_is_believed():
    declared = ab.declare(state="stateless")(make_counter())
    out = ab.from_iterable(range(60)).map(declared).to_list()

    assert ab.run(out, on="local", degree=2, verify="all").status == "finished"


def test_a_program_without_state_is_left_alone():
    table = {n: n * n for n in range(100)}
    out = ab.from_iterable(range(60)).map(lambda n: table[n]).to_list()

    ab.run(out, on="local", degree=3, verify="all")

    assert [n * n for n in range(60)] == out.items


def test_the_option_is_one_of_three():
    out = ab.from_iterable(range(60)).to_list()

    with pytest.raises(ArgumentError, match="verify must be 'sample', 'all' or 'off'"):
        ab.run(out, on="local", verify="often")
