"""Versions of states on one host: side by side, merged, loaded, and fenced by turns."""

from __future__ import annotations

import random

import pytest

from anabranch.epochs.state.store import EMPTY, GONE, Bucket, Stamp, close_buckets
from anabranch.errors import EngineError

ONE, TWO = Stamp(1, 1, 10), Stamp(2, 2, 20)


@pytest.fixture
def bucket(tmp_path):
    yield Bucket(tmp_path / "bucket")
    close_buckets()


def states(bucket, version, turn=99):
    assert bucket.begin(version, turn)
    found = dict(bucket.states())
    assert found == {key: bucket.get(key) for key in found}
    bucket.end()
    return found


def test_a_version_holds_what_was_before_and_what_has_changed(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1", b"b": b"1"})
    bucket.write(ONE, TWO, {b"b": b"2", b"c": b"2"})

    assert {b"a": b"1", b"b": b"2", b"c": b"2"} == states(bucket, TWO)


def test_an_epoch_that_is_run_again_begins_where_it_first_began(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1"})
    bucket.write(ONE, TWO, {b"a": b"2", b"new": b"2"})

    assert {b"a": b"1"} == states(bucket, ONE)
    assert bucket.begin(ONE, turn=99)
    assert bucket.get(b"new") is None
    bucket.end()


def test_two_attempts_of_one_try_do_not_touch_each_other(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1"})
    first, second = Stamp(2, 2, 20), Stamp(2, 2, 21)

    bucket.write(ONE, first, {b"a": b"first", b"x": b"first"})
    bucket.write(ONE, second, {b"a": b"second"})

    assert {b"a": b"first", b"x": b"first"} == states(bucket, first)
    assert {b"a": b"second"} == states(bucket, second)
    assert {b"a": b"1"} == states(bucket, ONE)


def test_an_attempt_that_begins_after_its_twin_is_done_changes_nothing(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1"})
    bucket.write(ONE, TWO, {b"a": b"2"})

    twin = Bucket(bucket.path)
    assert twin.begin(ONE, turn=2)
    assert b"1" == twin.get(b"a")

    assert {b"a": b"2"} == states(bucket, TWO)
    twin.end()


def test_the_version_that_the_next_epoch_begins_with_stays_and_the_others_go(bucket):
    winner, loser = Stamp(1, 1, 10), Stamp(1, 1, 11)
    bucket.write(EMPTY, winner, {b"a": b"1"})
    bucket.write(EMPTY, loser, {b"a": b"lost", b"lost": b"1"})

    bucket.write(winner, TWO, {b"b": b"2"})

    assert {b"a": b"1", b"b": b"2"} == states(bucket, TWO)
    assert {b"a": b"1"} == states(bucket, winner)
    assert not bucket.begin(loser, turn=99)
    assert not bucket.begin(EMPTY, turn=99)


def test_a_twin_that_writes_when_the_next_epoch_has_written_is_refused(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1"})
    bucket.write(ONE, TWO, {b"a": b"2"})

    with pytest.raises(EngineError, match="a later try"):
        bucket.write(EMPTY, Stamp(1, 1, 11), {b"a": b"late"})
    assert {b"a": b"2"} == states(bucket, TWO)


def test_a_twin_that_writes_before_the_next_epoch_does_is_dropped_by_it(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1"})
    assert bucket.begin(ONE, turn=2)

    Bucket(bucket.path).write(EMPTY, Stamp(1, 1, 11), {b"a": b"late"})

    assert b"1" == bucket.get(b"a")
    bucket.end()
    bucket.write(ONE, TWO, {b"b": b"2"})
    assert {b"a": b"1", b"b": b"2"} == states(bucket, TWO)
    assert (ONE, TWO) == bucket.versions


def test_a_later_try_replaces_what_an_earlier_one_has_written(bucket):
    bucket.write(EMPTY, Stamp(1, 1), {b"a": b"old", b"old": b"1"})
    bucket.write(EMPTY, Stamp(1, 2), {b"a": b"new"})

    assert {b"a": b"new"} == states(bucket, Stamp(1, 2))
    assert (EMPTY, Stamp(1, 2)) == bucket.versions


def test_an_earlier_try_cannot_write_or_begin_after_a_later_one_has_written(bucket):
    bucket.write(EMPTY, Stamp(1, 2), {b"a": b"later"})

    with pytest.raises(EngineError, match="a later try"):
        bucket.write(EMPTY, Stamp(1, 1), {b"a": b"earlier"})
    with pytest.raises(EngineError, match="a later try"):
        bucket.begin(EMPTY, turn=1)
    with pytest.raises(EngineError, match="a later try"):
        bucket.load(EMPTY, 1, [])
    assert {b"a": b"later"} == states(bucket, Stamp(1, 2))


def test_what_a_try_that_was_given_up_writes_while_the_next_begins_is_not_read(bucket):
    bucket.write(EMPTY, Stamp(1, 1), {b"a": b"given up"})

    assert {} == states(bucket, EMPTY, turn=2)


def test_what_another_try_writes_meanwhile_is_not_read(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1"})
    assert bucket.begin(ONE, turn=3)

    Bucket(bucket.path).write(ONE, TWO, {b"a": b"2"})

    assert b"1" == bucket.get(b"a")
    assert {b"a": b"1"} == dict(bucket.states())
    bucket.end()


def test_another_version_than_the_one_asked_for_is_refused(bucket):
    bucket.write(EMPTY, Stamp(1, 1), {b"a": b"1"})

    assert not bucket.begin(Stamp(1, 7), turn=9)
    assert not bucket.begin(Stamp(5, 5), turn=9)
    assert not bucket.write(Stamp(5, 5), Stamp(6, 9), {b"a": b"6"})
    assert {b"a": b"1"} == states(bucket, Stamp(1, 1))


def test_an_attempt_writes_once(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1"})

    with pytest.raises(EngineError, match="must write once"):
        bucket.write(EMPTY, ONE, {b"a": b"2"})


def test_tables_are_loaded_over_each_other(bucket):
    bucket.write(EMPTY, ONE, {b"gone": b"1"})

    bucket.load(Stamp(7, 7), 8, [[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")]])

    assert {b"a": b"2", b"b": b"1"} == states(bucket, Stamp(7, 7))
    assert not bucket.begin(EMPTY, turn=99)


@pytest.mark.parametrize("since", [EMPTY, ONE], ids=["the base", "a version of it"])
def test_tables_are_loaded_over_a_version_that_is_here(bucket, since):
    bucket.write(EMPTY, ONE, {b"a": b"1", b"b": b"1"})

    bucket.load(TWO, 3, [[(b"a", b"2")]], since)

    kept = {} if since == EMPTY else {b"b": b"1"}
    assert {b"a": b"2", **kept} == states(bucket, TWO)
    assert (TWO,) == bucket.versions


def test_what_was_made_from_a_loaded_version_is_not_lost_when_a_twin_loads_it(bucket):
    bucket.load(ONE, 2, [[(b"a", b"1")]])
    bucket.write(ONE, TWO, {b"a": b"2"})

    Bucket(bucket.path).load(ONE, 2, [[(b"a", b"1")]])

    assert {b"a": b"2"} == states(bucket, TWO)


def test_a_version_that_was_taken_away_is_not_loaded_over(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1"})

    bucket.load(Stamp(7, 7), 8, [[(b"b", b"7")]], since=Stamp(6, 6))

    assert not bucket.begin(Stamp(7, 7), turn=99)
    assert {b"a": b"1"} == states(bucket, ONE)


@pytest.mark.parametrize("seed", range(20))
def test_versions_are_as_a_dictionary_for_each_would_have_them(bucket, seed):
    """
    Attempts of all tries of an epoch write in any order; the one that the next epoch
    begins with is any of those of the last try.
    """
    chance = random.Random(seed)
    winner, expected, turn = EMPTY, {}, 0
    for epoch in range(1, 8):
        made = {}
        tries = [turn + 1, turn + 2]
        turn = tries[-1]
        attempts = [
            Stamp(epoch, one, 100 * epoch + n) for one in tries for n in range(2)
        ]
        last = 0
        for stamp in chance.sample(attempts, k=len(attempts)):
            changes = {
                b"%d" % chance.randrange(9): b"%d" % chance.randrange(99)
                for _ in range(chance.randrange(1, 5))
            }
            if stamp.turn < last:
                with pytest.raises(EngineError):
                    bucket.write(winner, stamp, changes)
                continue
            assert bucket.write(winner, stamp, changes)
            last = stamp.turn
            made[stamp] = {**expected, **changes}
            assert expected == states(bucket, winner)
        ends = {stamp: held for stamp, held in made.items() if stamp.turn == turn}
        for stamp, held in ends.items():
            assert held == states(bucket, stamp)
        winner, expected = chance.choice(sorted(ends.items()))


def test_a_state_that_goes_is_gone_in_its_version_and_in_all_that_follow(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1", b"b": b"1"})
    bucket.write(ONE, TWO, {b"a": GONE, b"c": b"2"})

    assert {b"a": b"1", b"b": b"1"} == states(bucket, ONE)
    assert {b"b": b"1", b"c": b"2"} == states(bucket, TWO)
    assert bucket.begin(TWO, turn=99)
    assert bucket.get(b"a") is None
    bucket.end()

    three, four = Stamp(3, 3, 30), Stamp(4, 4, 40)
    bucket.write(TWO, three, {b"d": b"3"})
    assert {b"b": b"1", b"c": b"2", b"d": b"3"} == states(bucket, three)
    bucket.write(three, four, {b"a": b"4"})
    assert {b"a": b"4", b"b": b"1", b"c": b"2", b"d": b"3"} == states(bucket, four)


def test_tables_that_are_loaded_take_states_away_too(bucket):
    snapshot = [(b"a", b"1"), (b"b", b"1")]

    bucket.load(TWO, 2, [snapshot, [(b"a", GONE), (b"c", b"2")]])

    assert {b"b": b"1", b"c": b"2"} == states(bucket, TWO)


def test_a_version_may_follow_one_that_is_not_committed(bucket):
    first, second = Stamp(2, 2, 10), Stamp(3, 3, 10)
    bucket.write(EMPTY, ONE, {b"a": b"1", b"b": b"1"})
    bucket.write(ONE, first, {b"a": b"2", b"b": GONE}, {first})
    bucket.write(first, second, {b"c": b"3"}, {first})

    assert {b"a": b"1", b"b": b"1"} == states(bucket, ONE)
    assert {b"a": b"2"} == states(bucket, first)
    assert {b"a": b"2", b"c": b"3"} == states(bucket, second)


def test_a_try_that_is_taken_back_takes_those_behind_it_along(bucket):
    first, second = Stamp(2, 2, 10), Stamp(3, 3, 10)
    bucket.write(EMPTY, ONE, {b"a": b"1"})
    bucket.write(ONE, first, {b"a": b"2"}, {first})
    bucket.write(first, second, {b"a": b"3"}, {first})

    again = Stamp(2, 4, 11)
    bucket.write(ONE, again, {b"b": b"4"})

    assert {b"a": b"1", b"b": b"4"} == states(bucket, again)
    assert (ONE, again) == bucket.versions


def test_what_is_committed_of_a_line_becomes_the_base(bucket):
    line = [Stamp(epoch, epoch, 10) for epoch in range(1, 6)]
    base = EMPTY
    for number, stamp in enumerate(line):
        bucket.write(base, stamp, {b"%d" % number: b"x"}, line[number - 2 : number])
        base = stamp

    assert tuple(line[1:]) == bucket.versions  # the second was committed last
    assert {b"0", b"1", b"2", b"3", b"4"} == set(states(bucket, line[4]))
