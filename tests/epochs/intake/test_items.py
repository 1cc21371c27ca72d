"""Items of the driver are broadcast in sections, and taken by their numbers."""

from collections import deque

import pytest

import anabranch as ab
from anabranch.epochs.intake import items as listed
from anabranch.epochs.intake.items import ListedIntake, read_listed
from anabranch.epochs.transport.pickle import Pickler
from anabranch.errors import CheckpointError
from anabranch.graph.graph import Graph
from tests.engines.spark.imitation import Cluster, imitated, undisturbed

PICKLER = Pickler(Graph(()))


@pytest.fixture
def small_sections(monkeypatch):
    monkeypatch.setattr(listed, "_SECTION_ITEMS", 10)
    monkeypatch.setattr(listed, "_CHUNK_ITEMS", 4)


def taken(intake, rows, parts):
    """Take to the end; what each piece says of itself, and what is read of it."""
    found = []
    while not intake.ended:
        found += [
            (piece.first, read_listed(piece, PICKLER))
            for piece in intake.take(rows, parts, exactly=True)
        ]
    return found


@pytest.mark.usefixtures("small_sections")
@pytest.mark.parametrize("rows", [1, 3, 7, 10, 23, 100])
@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("kind", [list, range, iter])
def test_pieces_are_the_items_in_order_whatever_the_sections(spark, rows, parts, kind):
    items = range(23) if kind is range else kind(list(range(23)))
    intake = ListedIntake("n", items, PICKLER, spark.sparkContext.broadcast)

    found = taken(intake, rows, parts)
    intake.close()

    assert list(range(23)) == [item for _, part in found for item in part]
    assert all(first == part[0] + 1 for first, part in found)


@pytest.mark.usefixtures("small_sections")
def test_a_section_is_sent_once_and_forgotten_when_it_is_over(spark):
    sent = []

    def share(chunks):
        sent.append(spark.sparkContext.broadcast(chunks))
        return sent[-1]

    intake = ListedIntake("n", list(range(100)), PICKLER, share)
    for _ in range(20):
        intake.take(3, 2, exactly=True)

    assert len(sent) == 6
    assert len(intake._sections) < 3
    intake.close()


@pytest.mark.parametrize("kind", [list, iter])
def test_an_intake_goes_on_from_a_position(spark, kind):
    share = spark.sparkContext.broadcast
    first = ListedIntake("n", kind(list(range(9))), PICKLER, share)
    first.take(4, 1, exactly=True)
    second = ListedIntake("n", kind(list(range(9))), PICKLER, share)
    second.seek(first.position())

    assert [(5, [4, 5, 6, 7, 8])] == taken(second, 10, 1)


@pytest.mark.parametrize("kind", [list, iter])
def test_a_collection_that_has_shrunk_is_refused(spark, kind):
    intake = ListedIntake("n", kind([1, 2]), PICKLER, spark.sparkContext.broadcast)

    with pytest.raises(CheckpointError, match="n was read up to 3 items and has 2"):
        intake.seek({"at": 3})


@pytest.mark.parametrize("items", [{3, 1, 2}, {"b": 1, "a": 2}.items(), (4, 5), "xyz"])
def test_any_collection_is_read_in_the_drivers_own_order(items):
    out = ab.from_iterable(items).to_list()
    ab.run(out, on="spark", degree=2, epoch_items=2)

    assert list(items) == out.items


@pytest.mark.parametrize("kind", [deque, "".join], ids=["deque", "str"])
def test_a_source_may_be_any_collection(kind, monkeypatch, tmp_path):
    """
    A deque takes no slices.
    """
    out = ab.from_iterable(kind("abcdefg" * 10)).map(str.upper).to_list()

    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        ab.run(out, on="spark", degree=2, epoch_items=9)

    assert ["A", "B", "C", "D", "E", "F", "G"] * 10 == out.items
