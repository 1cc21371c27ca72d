"""Versions of states on one host: side by side, merged, loaded, and fenced by turns."""

from __future__ import annotations

import random

import pytest

from anabranch.epochs.state.buckets import EMPTY, Stamp, prefix_of_bucket
from anabranch.epochs.state.store import GONE, BucketStore, close_buckets
from anabranch.errors import EngineError
from tests.epochs.state.one_bucket import Bucket, in_bucket, without_bucket

ONE, TWO = Stamp(1, 1, 10), Stamp(2, 2, 20)


OTHERS = {
    "alone": {},
    "between others": {4: {b"a": b"x", b"b": b"x"}, 6: {b"0": b"x", b"c": b"x"}},
}


@pytest.fixture(params=OTHERS.values(), ids=OTHERS)
def bucket(tmp_path, request):
    """A bucket in a store; nothing that is done to it changes the others there."""
    for number, held in request.param.items():
        other = Bucket(tmp_path / "bucket", number)
        other.write(EMPTY, Stamp(1, 1, number), held)
        other.write(Stamp(1, 1, number), Stamp(1, 1, 7), {b"late": b"x"})
    yield Bucket(tmp_path / "bucket")
    for number, held in request.param.items():
        other = Bucket(tmp_path / "bucket", number)
        assert held == states(other, Stamp(1, 1, number))
        assert {**held, b"late": b"x"} == states(other, Stamp(1, 1, 7))
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


def test_a_database_that_a_full_disk_left_incomplete_is_made_anew(tmp_path):
    path = tmp_path / "bucket"
    path.mkdir()
    (path / "data.mdb").write_bytes(b"\0" * 4096)

    assert (EMPTY,) == Bucket(path).versions


def test_the_table_of_readers_has_its_blocks_before_it_is_mapped(tmp_path):
    Bucket(tmp_path / "bucket")
    found = (tmp_path / "bucket" / "lock.mdb").stat()

    assert found.st_blocks * 512 >= found.st_size  # else a full disk ends the process


FEW = {
    1: {b"a": b"1"},
    2: {b"b": b"1"},
    3: {b"a": b"1", b"c": b"1"},
}


@pytest.fixture
def store(tmp_path):
    yield BucketStore(tmp_path / "store")
    close_buckets()


def entries(changes):
    """Return the changes of buckets as they are written."""
    return [one for n in sorted(changes) for one in in_bucket(n, changes[n].items())]


def read(store, wanted):
    """Return the states of buckets in the wanted versions."""
    assert [] == store.begin(wanted, 99)
    found = {n: dict(without_bucket(store.states(buckets=[n]))) for n in wanted}
    store.end()
    return found


def test_buckets_are_written_together_and_read_apart(store):
    store.write(dict.fromkeys(FEW, EMPTY), ONE, entries(FEW))

    assert FEW == read(store, dict.fromkeys(FEW, ONE))
    assert {2: FEW[2]} == read(store, {2: ONE})


def test_a_bucket_that_moves_to_another_replica_takes_its_changes_along(store):
    """
    Its new replica follows the attempt of the old one, whose other buckets stay.
    """
    store.write(dict.fromkeys(FEW, EMPTY), ONE, entries(FEW))

    store.write({2: ONE}, Stamp(2, 2, 21), entries({2: {b"b": b"2"}}))
    store.write({1: ONE, 3: ONE}, Stamp(2, 2, 20), entries({3: {b"c": GONE}}))

    last = {1: Stamp(2, 2, 20), 2: Stamp(2, 2, 21), 3: Stamp(2, 2, 20)}
    assert {1: {b"a": b"1"}, 2: {b"b": b"2"}, 3: {b"a": b"1"}} == read(store, last)
    assert FEW == read(store, dict.fromkeys(FEW, ONE))
    assert [2] == store.begin(dict.fromkeys(FEW, Stamp(2, 2, 20)), 99)


def test_nothing_is_written_if_one_of_the_bases_is_missing(store):
    store.write({1: EMPTY, 2: EMPTY}, ONE, entries({1: {b"a": b"1"}}))

    assert [3] == store.write(dict.fromkeys(FEW, ONE), TWO, entries(FEW))
    assert {1: {b"a": b"1"}, 2: {}} == read(store, {1: ONE, 2: ONE})
    assert {3: {}} == read(store, {3: EMPTY})


def test_the_first_state_is_found_with_all_changes(store):
    def first(prefix, begin):
        of = prefix_of_bucket(3)
        found = store.first(of + prefix, of + begin)
        return None if found is None else (found[0][2:], found[1])

    held = {b"a1": b"1", b"a3": b"3", b"b1": b"1"}
    store.load(ONE, [3], 1, [in_bucket(3, held.items())])
    changes = {b"a1": GONE, b"a2": b"2", b"a3": b"4"}
    store.write({3: ONE, 4: EMPTY}, TWO, entries({3: changes, 4: {b"a0": b"0"}}))

    assert [] == store.begin({3: TWO}, 99)
    assert (b"a2", b"2") == first(b"a", b"a")
    assert (b"a3", b"4") == first(b"a", b"a2\0")
    assert first(b"a", b"a3\0") is None
    assert (b"b1", b"1") == first(b"b", b"b")
    assert first(b"c", b"c") is None


@pytest.mark.parametrize("seed", range(20))
def test_buckets_that_move_are_as_a_dictionary_for_each_would_have_them(store, seed):
    """
    Each epoch deals the buckets of a store anew to three replicas; some are given up and
    run again, some are not committed when the next begins.
    """
    chance = random.Random(seed)
    buckets = range(8)
    versions = dict.fromkeys(buckets, EMPTY)
    expected = {n: {} for n in buckets}
    turn, pending = 0, ()
    for epoch in range(1, 12):
        before = versions, expected
        for again in range(chance.choice([1, 1, 2])):
            versions, expected = dict(before[0]), {n: {**before[1][n]} for n in buckets}
            turn += 1
            owner = {n: chance.randrange(3) for n in buckets}
            stamps = [Stamp(epoch, turn, 10 * replica) for replica in range(3)]
            for replica in chance.sample(range(3), 3):
                own = [n for n in buckets if owner[n] == replica]
                if not own or chance.random() < 0.2:
                    continue
                changes = {n: {} for n in own}
                for n in own:
                    for _ in range(chance.randrange(3)):
                        key = b"%d" % chance.randrange(4)
                        changes[n][key] = chance.choice([GONE, b"%d" % turn])
                bases = {n: versions[n] for n in own}
                assert [] == store.write(
                    bases, stamps[replica], entries(changes), pending if again else ()
                )
                for n in own:
                    versions[n] = stamps[replica]
                    after = {**expected[n], **changes[n]}
                    expected[n] = {k: s for k, s in after.items() if s != GONE}
        assert expected == read(store, versions)
        if chance.random() < 0.3:  # it is restored, as if it had been elsewhere
            n = chance.randrange(8)
            elsewhere = Stamp(epoch, turn, 77)
            store.load(elsewhere, [n], turn, [in_bucket(n, expected[n].items())])
            versions[n] = elsewhere
            assert expected == read(store, versions)
