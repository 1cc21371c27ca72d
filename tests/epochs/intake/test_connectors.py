"""What epochs take in of sources of the user's, without a Spark."""

from __future__ import annotations

import json
import pickle
import random

import pytest

import anabranch as ab
from anabranch.connectors.socket import SocketSource
from anabranch.epochs.intake.connectors import (
    DriverIntake,
    LiveIntake,
    WorkerIntake,
    latest,
    read_partition,
    read_shipped,
)
from anabranch.errors import CheckpointError, InputError
from anabranch.graph.graph import Op
from anabranch.operators.sources import ReadSource
from tests.connectors.own import Grid, in_blocks


def op_of(source):
    return Op("cells", ReadSource(source))


def read_by_workers(intake, op, rows, *, exactly):
    """Take an epoch, and read its pieces in any order, as workers would."""
    pieces = intake.take(rows, 2, exactly=exactly)
    read = [read_partition(piece, op, pytest.fail, None) for piece in pieces]
    reached = [one for _, one in read]
    names = [piece.partition for piece in pieces]
    intake.advance(latest(zip(names, reached, strict=True)))
    return [pair for found, _ in read for pair in found.items]


def read_by_driver(intake, op, rows, *, exactly):
    pieces = intake.take(rows, 2, exactly=exactly)
    read = [read_shipped(piece, op, pickle, pytest.fail, None) for piece in pieces]
    return [pair for found in read for pair in found.items]


def made_by_workers(op, partitions):
    return WorkerIntake(op, partitions)


def made_by_driver(op, partitions):
    return DriverIntake(op, partitions, pickle)


WAYS = {
    "workers": (made_by_workers, read_by_workers),
    "driver": (made_by_driver, read_by_driver),
}


@pytest.mark.parametrize(("make", "read"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_any_epochs_and_restarts_give_the_order_of_blocks(make, read, exactly, seed):
    """
    However large the epochs are, and wherever another run goes on from the position
    that a checkpoint has saved. Numbers only grow.
    """
    chance = random.Random(seed)
    lengths = [chance.randrange(20) for _ in range(chance.randrange(1, 5))]
    source = Grid(tuple(lengths), block=chance.randrange(1, 6))
    op = op_of(source)
    intake = make(op, source.partitions())
    found = []
    for _ in range(1000):
        if intake.ended:
            break
        found += read(intake, op, chance.randrange(1, 15), exactly=exactly)
        if chance.random() < 0.2:
            saved = json.loads(json.dumps(intake.position()))
            op = op_of(source)
            intake = make(op, source.partitions())
            intake.seek(saved)

    numbers = [number for _, number in found]
    assert in_blocks(lengths, source.block) == [item for item, _ in found]
    assert sorted(set(numbers)) == numbers


def test_an_epoch_of_workers_has_at_most_one_block_of_each_partition():
    source = Grid((9, 9), block=3)
    intake = WorkerIntake(op_of(source), source.partitions())

    pieces = intake.take(100, 2, exactly=False)

    assert [("p0", 0, 3), ("p1", 0, 3)] == [
        (piece.partition, piece.index, piece.rows) for piece in pieces
    ]


def test_another_block_than_before_is_refused():
    before = WorkerIntake(op_of(Grid((9, 9), block=3)), ["p0", "p1"])
    now = WorkerIntake(op_of(Grid((9, 9), block=4)), ["p0", "p1"])

    with pytest.raises(CheckpointError, match=r"same block .* had 3 and has 4"):
        now.seek(before.position())


class Breaks(ab.Source):
    """Two partitions; the second fails at its third row while `broken`."""

    block = 2
    broken = True

    def partitions(self):
        return ["a", "b"]

    def read(self, partition, position):
        for row in range(position or 0, 5):
            if partition == "b" and row == 2 and self.broken:
                raise OSError
            yield f"{partition}{row}", row + 1


def test_rows_before_a_failure_are_given_first_and_the_rest_follows_in_order():
    source = Breaks()
    op = op_of(source)
    intake = DriverIntake(op, source.partitions(), pickle)

    before = read_by_driver(intake, op, 100, exactly=False)
    saved = json.loads(json.dumps(intake.position()))
    with pytest.raises(InputError, match="partition 'b' failed after position 2"):
        intake.take(100, 2, exactly=False)
    source.broken = False
    again = DriverIntake(op, source.partitions(), pickle)
    again.seek(saved)
    after = read_by_driver(again, op, 100, exactly=False)

    assert ["a0", "a1", "b0", "b1", "a2", "a3"] == [item for item, _ in before]
    assert ["b2", "b3", "a4", "b4"] == [item for item, _ in after]


def test_a_piece_can_be_read_again_after_a_failure():
    """
    The generator that has failed is not taken for one that has ended.
    """
    source = Breaks()
    op = op_of(source)
    intake = WorkerIntake(op, source.partitions())
    read_by_workers(intake, op, 4, exactly=False)
    _, piece = intake.take(4, 2, exactly=False)
    with pytest.raises(InputError):
        read_partition(piece, op, pytest.fail, None)
    source.broken = False

    found, _ = read_partition(piece, op, pytest.fail, None)

    assert ["b2", "b3"] == [item for item, _ in found.items]


def test_a_socket_goes_on_from_a_position_of_an_earlier_release():
    intake = LiveIntake(op_of(SocketSource("localhost", 9, int, "jsonl")), pickle)

    intake.seek({"row": 8})

    assert {"next": 8, "partitions": {"all": 7}} == intake.position()


class Filling(ab.Source):
    """A live source with so many rows; somebody adds to them."""

    live = True

    def __init__(self):
        self.rows = 0

    def read(self, partition, position):
        for n in range(position or 0, self.rows):
            yield n, n + 1

    def count_waiting(self, positions):
        return self.rows - (positions.get("all") or 0)


def test_rows_that_arrive_while_an_epoch_runs_are_counted():
    source = Filling()
    intake = LiveIntake(op_of(source), pickle)
    source.rows = 10
    counts = [intake.count_arrivals()]
    intake.take(4, 1, exactly=False)
    counts.append(intake.count_arrivals())
    source.rows = 25
    counts.append(intake.count_arrivals())

    assert [10, 10, 25] == counts
