"""Rows are taken ahead only where that makes no difference."""

from contextlib import closing

from anabranch.engines.spark.listed import ListedIntake
from anabranch.engines.spark.pickling import Pickler
from anabranch.engines.spark.taking import Taking
from anabranch.graph.graph import Graph


class Arriving(ListedIntake):
    """Items that can only be taken when they are needed."""

    any_time = False


def sources(kind, share, *lengths):
    pickler = Pickler(Graph(()))
    return {
        f"s{n}": kind(f"s{n}", range(length), pickler, share)
        for n, length in enumerate(lengths)
    }


def taken_rows(taken):
    return {name: sum(p.rows for p in pieces) for name, pieces in taken.pieces.items()}


def test_what_is_taken_ahead_is_what_comes_next(spark):
    share = spark.sparkContext.broadcast
    with closing(Taking(sources(ListedIntake, share, 5, 2))) as taking:
        found = []
        for _ in range(4):
            taken = taking.take(2, 1)
            taking.prepare(2, 1)
            found.append((taken_rows(taken), taken.positions["s0"], taken.waiting))

    assert [
        ({"s0": 2, "s1": 2}, {"at": 2}, 3),
        ({"s0": 2}, {"at": 4}, 1),
        ({"s0": 1}, {"at": 5}, 0),
        ({}, {"at": 5}, 0),
    ] == found


def test_rows_that_arrive_by_themselves_are_not_taken_ahead(spark):
    share = spark.sparkContext.broadcast
    intakes = sources(ListedIntake, share, 4) | {
        "late": sources(Arriving, share, 4)["s0"]
    }
    with closing(Taking(intakes)) as taking:
        taking.prepare(2, 1)

        assert {"s0": {"at": 1}, "late": {"at": 1}} == taking.take(1, 1).positions


def test_rows_know_how_many_were_asked_for(spark):
    share = spark.sparkContext.broadcast
    with closing(Taking(sources(ListedIntake, share, 9))) as taking:
        taking.prepare(2, 1)

        assert [2, 3] == [taking.take(3, 1).asked, taking.take(3, 1).asked]
