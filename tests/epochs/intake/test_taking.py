"""Rows are taken ahead only where that makes no difference."""

from contextlib import closing

from anabranch.epochs.intake.intake import Taking
from anabranch.epochs.intake.items import ListedIntake
from anabranch.epochs.transport.pickle import Pickler
from anabranch.graph.graph import Graph


def sources(share, *lengths):
    pickler = Pickler(Graph(()))
    return {
        f"s{n}": ListedIntake(f"s{n}", range(length), pickler, share)
        for n, length in enumerate(lengths)
    }


def taken_rows(taken):
    return {name: sum(p.rows for p in pieces) for name, pieces in taken.pieces.items()}


def test_what_is_taken_ahead_is_what_comes_next(spark):
    share = spark.sparkContext.broadcast
    with closing(Taking(sources(share, 5, 2))) as taking:
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


def test_what_is_made_when_it_is_asked_for_is_not_taken_ahead(spark):
    share = spark.sparkContext.broadcast
    made = ListedIntake("made", iter(range(4)), Pickler(Graph(())), share)
    intakes = sources(share, 4) | {"made": made}
    with closing(Taking(intakes)) as taking:
        taking.prepare(2, 1)

        assert {"s0": {"at": 1}, "made": {"at": 1}} == taking.take(1, 1).positions


def test_rows_know_how_many_were_asked_for(spark):
    share = spark.sparkContext.broadcast
    with closing(Taking(sources(share, 9))) as taking:
        taking.prepare(2, 1)

        assert [2, 3] == [taking.take(3, 1).asked, taking.take(3, 1).asked]
