"""Generators run in the tasks that need their items."""

import itertools
import os
import threading
import time

import pytest

import anabranch as ab
from anabranch.epochs.intake.items import (
    GeneratedIntake,
    GeneratedPiece,
    read_generated,
)
from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.operators.sources import Generate
from tests import needs


def counting(begun, n):
    """Return a source of `n` numbers that tells when it begins."""

    def numbers():
        begun.append(1)
        return iter(range(1, n + 1))

    return Op("numbers", Generate(numbers))


def test_a_process_that_is_given_later_and_later_ranges_runs_the_generator_once():
    begun = []
    source = counting(begun, 1_000_000)
    ranges = [(1, 3), (10, 2), (12, 1), (500_000, 2)]

    read = [
        read_generated(GeneratedPiece("numbers", first, rows), source)
        for first, rows in ranges
    ]

    assert [[1, 2, 3], [10, 11], [12], [500_000, 500_001]] == read
    assert begun == [1]


def test_an_earlier_range_is_read_from_the_beginning_again():
    begun = []
    source = counting(begun, 10)
    later = read_generated(GeneratedPiece("numbers", 8, 2), source)
    earlier = read_generated(GeneratedPiece("numbers", 1, 2), source)

    assert ([8, 9], [1, 2], [1, 1]) == (later, earlier, begun)


def test_a_range_behind_the_end_is_empty_and_tells_that_it_is_over():
    source = counting([], 10)
    intake = GeneratedIntake("numbers")
    given = []
    while not intake.ended:
        pieces = intake.take(4, 2, exactly=True)
        items = [item for piece in pieces for item in read_generated(piece, source)]
        intake.note_items(len(items))
        given.append(items)

    assert [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]] == given


@pytest.mark.spark
@pytest.mark.parametrize("n", needs.quick(1, [21, 0, 1, 19, 20]))
@pytest.mark.parametrize("degree", needs.quick(1, [3, 1]))
def test_a_generator_ends_anywhere_within_an_epoch(n, degree):
    out = ab.generate(lambda: iter(range(n)), int).map(lambda i: i * i).to_list()
    ab.run(out, on="spark", degree=degree, epoch_items=10)

    assert [i * i for i in range(n)] == out.items


@pytest.mark.spark
def test_items_are_made_where_they_are_needed():
    @ab.declare(state="stateless")
    def processes():
        return itertools.repeat(os.getpid(), 40)

    out = ab.generate(processes, int).to_list()
    ab.run(out, on="spark", degree=2, epoch_items=20)

    assert os.getpid() not in out.items
    assert len(out.items) == 40


@pytest.mark.spark
def test_what_depends_on_the_process_is_made_in_the_driver():
    def processes():
        return itertools.repeat(os.getpid(), 40)

    out = ab.generate(processes, int).to_list()
    ab.run(out, on="spark", degree=2, epoch_items=20)

    assert [os.getpid()] * 40 == out.items


@pytest.mark.spark
def test_what_cannot_travel_is_read_by_the_driver():
    lock = threading.Lock()

    def locked():
        for n in range(5):
            with lock:
                yield n

    out = ab.generate(locked, int).to_list()
    ab.run(out, on="spark", epoch_items=2)

    assert list(range(5)) == out.items


@pytest.mark.parametrize(
    "engine", ["sequential", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_a_generator_that_fails_is_named_with_the_number_of_its_items(engine):
    def broken():
        yield from range(5)
        message = "out of numbers"
        raise LookupError(message)

    with pytest.raises(InputError, match="it failed after 5 of them: LookupError: out"):
        ab.run(ab.generate(broken, int).to_list(), on=engine, epoch_items=10)


@pytest.mark.long
def test_the_first_items_of_a_slow_generator_are_not_kept_waiting():
    """
    Without a number of items per epoch: nobody has said, and nobody knows the pace.
    """

    def slow():
        for n in itertools.count():
            time.sleep(0.001)
            yield n

    out = ab.generate(slow, int).to_list()
    job = ab.start(out, on="spark")
    while not out.items:
        assert not job.wait(timeout=0.05)
    job.stop()

    assert list(range(len(out.items))) == out.items
    assert len(out.items) < 20_000
