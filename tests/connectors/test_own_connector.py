"""Sources and sinks that users write themselves."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import sqlite3
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.connectors.external import open_external
from anabranch.connectors.files.arrow_items import form_of
from anabranch.connectors.partitions import ArrivingReader, OffsetRange, RangedReader
from anabranch.epochs.intake.connectors import RangePiece, read_offsets
from anabranch.errors import (
    ArgumentError,
    CheckpointError,
    GraphError,
    InputError,
    OperatorError,
    OutputError,
)
from anabranch.graph.graph import Op
from anabranch.operators.sinks import WriteSink
from anabranch.operators.sources import ReadSource
from anabranch.runtime.failures import stop
from anabranch.runtime.ports import AbortedError
from tests.connectors.own import (
    Cell,
    Files,
    Grid,
    Numbered,
    Parted,
    Tail,
    Unpicklable,
    in_blocks,
)
from tests.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "connectors.md"
spark = pytest.mark.spark


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """The connectors of the documentation, as a module beside the user's script."""
    fence = PAGE.read_text(encoding="utf-8").partition("## Your own")[2].split("```")[1]
    examples = doctest.DocTestParser().get_examples(fence.removeprefix("python"))
    (tmp_path / "shop.py").write_text("".join(one.source for one in examples))
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("shop")
    del sys.modules["shop"]


@pytest.fixture
def orders(tmp_path):
    """A database with orders of two shops; returns its path."""
    path = str(tmp_path / "orders.db")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, shop, price)")
        rows = [("ns"[n % 2], n) for n in range(100)]
        db.executemany("INSERT INTO orders (shop, price) VALUES (?, ?)", rows)
    return path


def sold(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT shop, price FROM sold ORDER BY rowid").fetchall()


def test_the_documented_connectors_move_every_row(engine, shop, orders, tmp_path):
    out = str(tmp_path / "sold.db")
    source = ab.read(shop.ReadOrders(orders), shop.Order)

    ab.run(source.write(shop.WriteOrders(out)), on=engine, epoch_items=30)

    north = [("n", n) for n in range(0, 100, 2)]
    south = [("s", n) for n in range(1, 100, 2)]
    assert north + south == sold(out)


@spark
def test_the_documented_connectors_go_on_after_a_failure(shop, orders, tmp_path):
    flag = tmp_path / "fail"
    flag.touch()
    out = str(tmp_path / "sold.db")

    @ab.declare(state="stateless")
    def checked(order):
        assert order.price != 51 or not flag.exists()
        return order

    def run():
        source = ab.read(shop.ReadOrders(orders), shop.Order)
        sink = source.map(checked, type=shop.Order).write(shop.WriteOrders(out))
        ab.run(sink, on="spark", checkpoint=tmp_path / "checkpoint", epoch_items=30)

    with pytest.raises(OperatorError, match="51"):
        run()
    before = len(sold(out))
    flag.unlink()
    run()
    run()  # it has ended; nothing comes again

    north = [("n", n) for n in range(0, 100, 2)]
    south = [("s", n) for n in range(1, 100, 2)]
    assert 0 < before < 100
    assert north + south == sold(out)


LENGTHS = {
    "one partition": (7,),
    "even partitions": (8, 8),
    "one is longer": (3, 22, 0, 9),
    "no partitions": (),
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_a_bounded_source_gives_blocks_of_its_partitions_in_turn(engine, lengths):
    out = ab.read(Grid(lengths), Cell).map(lambda cell: cell).to_list()

    ab.run(out, on=engine, degree=2, epoch_items=10)

    assert in_blocks(lengths, 4) == out.items


def test_the_order_of_blocks_is_that_of_the_documentation():
    found = ab.testing.outputs(ab.read(Grid((3, 1, 4), block=2), Cell))

    assert "p0 p0 p1 p2 p2 p0 p2 p2" == " ".join(cell.partition for cell in found)


@spark
def test_parts_that_workers_write_have_the_order_of_the_source(tmp_path):
    cells = ab.read(Grid((40, 9, 33, 40), block=8), Cell)
    out = tmp_path / "out"

    ab.run(cells.filter(lambda cell: cell.row != 5).write_jsonl(out), on="spark")

    found = [
        Cell(**json.loads(line))
        for part in sorted(out.iterdir())
        for line in part.read_text().splitlines()
    ]
    expected = in_blocks((40, 9, 33, 40), 8)
    assert [cell for cell in expected if cell.row != 5] == found


@spark
def test_workers_read_on_where_they_stopped(tmp_path):
    """
    Each partition is read from its beginning, and again only from later positions.
    """
    log = tmp_path / "log"
    out = ab.read(Grid((20, 20), block=5, log=str(log)), Cell).to_list()

    ab.run(out, on="spark", degree=2)

    begun = [json.loads(line) for line in log.read_text().splitlines()]
    assert in_blocks((20, 20), 5) == out.items
    assert [["p0", None], ["p1", None]] == sorted(begun[:2])
    assert all(position in (None, 5, 10, 15, 20) for _, position in begun)


@spark
def test_a_source_that_cannot_travel_is_read_in_the_driver():
    out = ab.read(Unpicklable((9, 5)), Cell).to_list()

    ab.run(out, on="spark", epoch_items=3)

    assert in_blocks((9, 5), 4) == out.items


def test_sources_take_turns_by_the_numbers_of_their_rows(engine):
    """
    A partition that has ended leaves its numbers out, on every engine alike.
    """
    cells = ab.read(Grid((2, 5), block=2), Cell).map(str)
    numbers = ab.from_iterable(list(range(9))).map(str)
    out = ab.union(cells, numbers).to_list()

    ab.run(out, on=engine, epoch_items=3)

    expected = []
    rows = [*in_blocks((2, 2), 2), None, None, Cell("p1", 2), Cell("p1", 3), None]
    for number, cell in enumerate(rows):
        expected += [str(number)] if cell is None else [str(cell), str(number)]
    at_end = [str(Cell("p1", 4))]
    assert [*expected, *at_end] == out.items


@pytest.mark.parametrize("source", [Grid, Unpicklable], ids=["workers", "driver"])
@spark
def test_a_job_that_goes_on_reads_every_row_once(source, tmp_path):
    (tmp_path / "out").mkdir()
    sink = Files(str(tmp_path / "out"))
    flag = tmp_path / "fail"
    flag.touch()

    @ab.declare(state="stateless")
    def checked(cell):
        assert cell != ("p1", 13) or not flag.exists()
        return f"{cell.partition} {cell.row}"

    def run():
        cells = ab.read(source((10, 25, 18)), Cell)
        ab.run(
            cells.map(checked).write(sink),
            on="spark",
            checkpoint=tmp_path / "checkpoint",
            epoch_items=7,
        )

    with pytest.raises(OperatorError):
        run()
    first = sink.lines()
    flag.unlink()
    run()

    expected = [f"{p} {row}" for p, row in in_blocks((10, 25, 18), 4)]
    assert 0 < len(first) < len(expected)
    assert expected == sink.lines()


@spark
def test_other_partitions_than_before_are_refused(tmp_path):
    class Growing(Grid):
        """Its lengths are no field that is compared."""

        def partitions(self):
            return [*super().partitions(), *extra]

    def run():
        cells = ab.read(Growing((9, 9)), Cell)
        ab.run(
            cells.map(fails).for_each(print),
            on="spark",
            checkpoint=tmp_path / "checkpoint",
            epoch_items=4,
        )

    @ab.declare(state="stateless")
    def fails(cell):
        assert cell.row < 6
        return cell

    extra = []
    with pytest.raises(OperatorError):
        run()
    extra = ["p7"]

    with pytest.raises(CheckpointError, match=r"Growing, .*had \['p0', 'p1'\] and has"):
        run()


class FileLines(ab.Source):
    """The lines of files; `locked`: it cannot travel to workers."""

    def __init__(self, *files, locked=False):
        self.files = files
        if locked:
            self.lock = threading.Lock()

    def partitions(self):
        return [Path(file).name for file in self.files]

    def read(self, partition, position):
        path = Path(self.files[0]).parent / partition
        for n, line in enumerate(path.read_text().splitlines()):
            if n >= (position or 0):
                yield line, n + 1


class CountedLines(FileLines):
    def offsets(self, partition):
        path = Path(self.files[0]).parent / partition
        return 0, len(path.read_text().splitlines())


@pytest.mark.parametrize(
    "make",
    [FileLines, partial(FileLines, locked=True), CountedLines],
    ids=["workers", "driver", "offsets"],
)
@pytest.mark.parametrize(("left", "refused"), [(3, True), (40, False)])
@spark
def test_a_source_that_ends_before_its_checkpoint_is_refused(
    make, left, refused, tmp_path
):
    files = [tmp_path / "a", tmp_path / "b"]
    for file in files:
        file.write_text("".join(f"{file.name}{n}\n" for n in range(40)))
    flag = tmp_path / "fail"
    flag.touch()

    @ab.declare(state="stateless")
    def checked(line):
        assert int(line[1:]) < 20 or not flag.exists()
        return line

    def run():
        ab.run(
            ab.read(make(*map(str, files)), str).map(checked).for_each(print),
            on="spark",
            checkpoint=tmp_path / "checkpoint",
            epoch_items=8,
        )

    with pytest.raises(OperatorError):
        run()
    flag.unlink()
    lines = files[0].read_text().splitlines(keepends=True)
    files[0].write_text("".join(lines[:left]))

    if refused:
        with pytest.raises(InputError, match=r"partition 'a' was read up to position"):
            run()
    else:
        run()


def test_a_live_source_gives_rows_as_they_arrive(engine, tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("one\n")
    out = ab.read(Tail(str(path)), str).to_list()

    job = ab.start(out, on=engine)
    until(job, lambda: out.items == ["one"])
    with path.open("a") as file:
        file.write("two\nthr")
    until(job, lambda: out.items == ["one", "two"])
    job.stop()

    assert ["one", "two"] == out.items


def test_a_live_source_may_end(engine, tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("one\ntwo\nend\n")
    out = ab.read(Tail(str(path)), str).to_list()

    ab.run(out, on=engine)

    assert ["one", "two"] == out.items


@spark
def test_a_live_source_goes_on_behind_the_last_row(tmp_path):
    path, out = tmp_path / "log.txt", tmp_path / "out"
    out.mkdir()
    path.write_text("one\ntwo\n")
    sink = Files(str(out))

    def start():
        lines = ab.read(Tail(str(path)), str)
        return ab.start(
            lines.write(sink), on="spark", checkpoint=tmp_path / "checkpoint"
        )

    job = start()
    until(job, lambda: len(sink.lines()) == 2)
    job.stop()
    with path.open("a") as file:
        file.write("three\nend\n")
    start().wait()

    assert ["one", "two", "three"] == sink.lines()


def test_partitions_of_a_live_source_have_their_shares():
    class Two(ab.Source):
        live = True

        def partitions(self):
            return ["a", "b"]

        def read(self, partition, position):
            for n in range(position or 0, 10):
                yield f"{partition}{n}", n + 1

    reader = ArrivingReader(Op("two", ReadSource(Two())), print)

    found = [item for item, _ in reader.poll(6, 0)]

    assert ["a0", "a1", "a2", "b0", "b1", "b2"] == found


def test_the_latency_of_a_live_source_counts_from_the_birth_of_its_items():
    class Old(ab.Source):
        live = True

        def read(self, partition, position):
            yield from [(5, 1), (3, 2)][position or 0 :]

        def born_s(self, item):
            return time.time() - 100 * item

    reader = ArrivingReader(Op("old", ReadSource(Old())), print)

    reader.poll(10, 0)

    assert 500 == round((time.perf_counter() - reader.births.oldest_s) / 10) * 10


def test_malformed_rows_are_left_out_and_told(engine):
    class Numbers(ab.Source):
        def partitions(self):
            return ["a", "b"]

        def read(self, partition, position):
            yield 1, 1
            yield ab.Malformed("x", "must be a number", f"line 2 of {partition}"), 2
            yield 3, 3

    lost = []
    out = ab.read(Numbers(), int).to_list()

    ab.run(out, on=engine, on_error=ab.dead_letter(lost.append))

    assert [1, 3, 1, 3] == out.items
    assert ["line 2 of a", "line 2 of b"] == [failure.where for failure in lost]
    assert ["x", "x"] == [failure.item for failure in lost]


class UnpicklableError(Exception):
    def __reduce__(self):
        raise TypeError


def test_a_malformed_row_may_have_a_reason_that_cannot_travel(engine):
    class Numbers(ab.Source):
        def read(self, partition, position):
            yield ab.Malformed("x", UnpicklableError("no number")), 1
            yield 2, 2

    lost = []
    out = ab.read(Numbers(), int).to_list()

    ab.run(out, on=engine, on_error=ab.dead_letter(lost.append))

    assert [2] == out.items
    assert ["x"] == [failure.item for failure in lost]
    assert "cannot be read: UnpicklableError: no number" in str(lost[0].error)


def test_a_malformed_row_stops_the_job_behind_the_rows_before_it(engine):
    class Numbers(ab.Source):
        def read(self, partition, position):
            yield 1, 1
            yield ab.Malformed("x", "must be a number; got 'x'"), 2
            yield 3, 3

    out = ab.read(Numbers(), int).to_list()

    with pytest.raises(InputError, match="row 2 of read: must be a number; got 'x'"):
        ab.run(out, on=engine)

    assert [1] == out.items


def test_a_reading_that_is_given_up_lets_go_at_once(engine):
    """
    Not only when the garbage is collected: the error still holds on to the frames.
    """
    closed = []

    class Held(ab.Source):
        def read(self, partition, position):
            try:
                yield ab.Malformed("x", "must be a number"), 1
                yield 2, 2
            finally:
                closed.append("read")

        def close(self):
            closed.append("source")

    with pytest.raises(InputError):
        ab.run(ab.read(Held(), int).to_list(), on=engine)

    assert ["read", "source"] == closed


class Failing(ab.Source):
    def read(self, partition, position):
        yield "one", 1
        yield "two", 2
        raise KeyError


class FailingPartitions(Failing):
    def partitions(self):
        return ["a", "b"]


@pytest.mark.parametrize("source", [Failing, FailingPartitions])
def test_a_source_that_fails_is_told_with_its_class_and_line(engine, source):
    out = ab.read(source(), str).to_list()
    line = Failing.read.__code__.co_firstlineno + 3
    text = (
        rf"source 'read' \({source.__name__}, .*test_own_connector.py:\d+\) must give "
        rf"rows to its end; partition '\w+' failed after position 2, at "
        rf".*test_own_connector.py:{line}: KeyError: ; correct read"
    )

    with pytest.raises(InputError, match=text):
        ab.run(out, on=engine)

    assert ["one", "two"] == out.items


class WrongPartitions(Failing):
    def __init__(self, found):
        self.found = found

    def partitions(self):
        return self.found


@pytest.mark.parametrize("found", ["abc", [1, 2], ["a", "a"], None])
def test_a_bad_list_of_partitions_is_refused(engine, found):
    out = ab.read(WrongPartitions(found)).to_list()
    text = r"\(WrongPartitions, .*\) must return its partitions as a list of different"

    with pytest.raises(InputError, match=text):
        ab.run(out, on=engine)


class WrongPositions(ab.Source):
    def __init__(self, position):
        self.position = position

    def read(self, partition, position):
        yield "one", self.position


@pytest.mark.parametrize("position", [(1, 2), {1: 2}, object(), float("nan"), b"1"])
def test_a_position_that_cannot_be_saved_is_refused(position):
    out = ab.read(WrongPositions(position)).to_list()
    text = r"\(WrongPositions, .*\) must yield positions that JSON preserves"

    with pytest.raises(InputError, match=text):
        ab.run(out, on="sequential")


class Pages(ab.Source):
    """Yields the token of the next page for all rows of a page."""

    block = 4

    def partitions(self):
        return ["a", "b"]

    def read(self, partition, position):
        for page in range(position or 0, 4):
            for row in range(3):
                yield 3 * page + row, page + 1


class BeginsAnew(ab.Source):
    block = 4

    def partitions(self):
        return ["a", "b"]

    def read(self, partition, position):
        yield from ((n, n + 1) for n in range(12))


def test_rows_that_share_a_position_are_refused(engine):
    with pytest.raises(InputError, match=r"'a' have 1, so .* as in \[page, row\]"):
        ab.run(ab.read(Pages(), int).to_list(), on=engine)


@pytest.mark.spark
def test_a_source_that_does_not_heed_its_position_is_refused_where_it_matters():
    with pytest.raises(InputError, match=r"read\('a', 4\) came to its own start again"):
        ab.run(ab.read(BeginsAnew(), int).to_list(), on="spark", epoch_items=8)

    out = ab.read(BeginsAnew(), int).to_list()
    ab.run(out, on="sequential")
    assert [*range(4), *range(4)] == out.items[:8]


def test_a_row_without_a_position_is_refused():
    class Bare(ab.Source):
        def read(self, partition, position):
            yield "ab"

    with pytest.raises(InputError, match=r"must yield pairs .* gave 'ab'; yield both"):
        ab.run(ab.read(Bare()).to_list(), on="sequential")


@pytest.mark.parametrize("block", [0, "many"])
def test_a_block_without_rows_is_refused(block):
    with pytest.raises(InputError, match="must have a block of at least one row"):
        ab.run(ab.read(Grid((1,), block=block)).to_list(), on="sequential")


def test_a_method_that_is_missing_is_told_when_an_instance_is_made():
    class NoRead(ab.Source):
        def partitions(self):
            return []

    class NoWrite(ab.Sink):
        def commit(self, epoch):
            pass

    line = NoRead.partitions.__code__.co_firstlineno
    text = (
        rf"NoRead \(.*test_own_connector.py:{line}\) must define "
        rf"read\(self, partition, position\)"
    )
    with pytest.raises(TypeError, match=text):
        NoRead()
    with pytest.raises(TypeError, match=r"must define write\(self, items\)"):
        NoWrite()


class Empty(ab.Source):
    """A class without any method."""


def test_a_class_without_methods_is_named_with_its_line():
    line = inspect.getsourcelines(Empty)[1]

    with pytest.raises(
        TypeError, match=rf"Empty \(.*test_own_connector.py:{line}\) must define read"
    ):
        Empty()


def test_arguments_that_no_constructor_takes_are_refused():
    with pytest.raises(TypeError, match=r"Failing\(\) takes no arguments"):
        Failing("orders")


def test_a_class_in_the_place_of_an_instance_is_refused():
    with pytest.raises(TypeError, match=r"make an instance: Grid\(...\)"):
        ab.read(Grid)
    with pytest.raises(TypeError, match=r"make an instance: Files\(...\)"):
        ab.from_iterable([1]).write(Files)
    with pytest.raises(TypeError, match=r"inherits from ab.Source; got 7"):
        ab.read(7)
    with pytest.raises(TypeError, match=r"inherits from ab.Sink; got 7"):
        ab.from_iterable([1]).write(7)


class Journal(ab.Sink):
    """Notes all calls; what is not an int is malformed; 13 fails."""

    def __init__(self, last=None):
        self.calls = []
        self.last = last

    def open(self, job, type):
        self.calls.append(f"open {job}")
        return self.last

    def write(self, items):
        self.calls.append(f"write {items}")
        if 13 in items:
            raise ValueError
        return [ab.Malformed(x, "no int") for x in items if not isinstance(x, int)]

    def prepare(self, epoch):
        self.calls.append(f"prepare {epoch}")

    def commit(self, epoch):
        self.calls.append(f"commit {epoch}")

    def abort(self, epoch):
        self.calls.append(f"abort {epoch}")
        raise KeyError


def opened(sink):
    return open_external(Op("out", WriteSink(sink)), int, "job")


def refuse(item, error):
    raise error


def test_an_epoch_is_written_prepared_and_committed():
    sink = Journal()

    assert 2 == opened(sink).write(1, [1, 2], refuse)

    calls = ["open job-out", "write [1, 2]", "prepare 1", "commit 1"]
    assert calls == sink.calls


def test_an_epoch_that_was_committed_before_is_not_written_again():
    sink = Journal(last=2)
    external = opened(sink)

    assert [1, 1, 1] == [external.write(n, [n], refuse) for n in (1, 2, 3)]

    assert ["write [3]", "prepare 3", "commit 3"] == sink.calls[1:]


def test_a_write_that_fails_aborts_its_epoch_and_is_told():
    sink = Journal()
    line = Journal.write.__code__.co_firstlineno + 3
    text = (
        rf"sink 'out' \(Journal, .*\) must take every epoch; write failed, at "
        rf".*test_own_connector.py:{line}: ValueError: ; correct write"
    )

    with pytest.raises(OutputError, match=text):
        opened(sink).write(4, [13], refuse)

    assert "abort 4" == sink.calls[-1]


def test_a_refused_item_aborts_the_epoch_if_the_job_is_to_stop():
    sink = Journal()

    with pytest.raises(OutputError, match="no int"):
        opened(sink).write(1, [1, "x"], refuse)

    assert "abort 1" == sink.calls[-1]


def test_refused_items_are_left_out_and_told(engine):
    lost = []
    sink = Journal()
    stream = ab.from_iterable([1, "x", 2])

    job = ab.run(stream.write(sink), on=engine, on_error=ab.dead_letter(lost.append))

    assert ["x"] == [failure.item for failure in lost]
    assert {"write": 2} == job.metrics().delivered


@pytest.mark.parametrize("last", ["1", 1.0, True])
def test_a_last_epoch_that_is_no_number_is_refused(last):
    with pytest.raises(OutputError, match="must return from open the last epoch"):
        opened(Journal(last))


taken = 0
stored = []


class Counting(ab.Source):
    def read(self, partition, position):
        global taken  # noqa: PLW0603 - the tests are about that
        for row in range(position or 0, 500):
            taken += 1
            yield row, row + 1


class Storing(ab.Sink):
    def write(self, items):
        stored.extend(items)


def see_taken(row: int) -> tuple[int, int]:
    return row, taken


def see_stored(row: int) -> tuple[int, int]:
    return row, len(stored)


def test_what_a_source_changes_is_seen_row_by_row(engine, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "taken", 0)
    out = ab.read(Counting(), int).map(see_taken).to_list()

    ab.run(out, on=engine)

    assert [(row, row + 1) for row in range(500)] == out.items


def test_what_a_sink_changes_holds_up_its_readers_alone():
    stream = ab.from_iterable(range(10), int)
    free = ab.compile(stream.map(abs).write(Storing()), on="local")
    bound = ab.compile(stream.map(see_stored).write(Storing()), on="local")

    assert "" == free.plan.one_thread
    assert "map reads stored, which write may change" in bound.plan.one_thread


def test_what_a_source_keeps_to_itself_leaves_its_readers_parallel():
    class Remembering(ab.Source):
        def __init__(self) -> None:
            self.pages = {}

        def partitions(self):
            return ["a", "b"]

        def read(self, partition, position):
            self.pages[partition] = position
            yield 1, 1

    out = ab.read(Remembering(), int).map(abs, name="free").write_csv("out")

    regions = ab.compile(out, on="spark").plan.regions
    assert "free" in {name for region in regions for name in region.operators}


def test_a_position_behind_a_row_is_not_the_start(engine):
    class Forgetful(ab.Source):
        def partitions(self):
            return ["a", "b"]

        def read(self, partition, position):
            yield 1, None

    out = ab.read(Forgetful(), int).to_list()

    with pytest.raises(InputError, match=r"'a' it yielded None, which means the start"):
        ab.run(out, on=engine)


def test_reading_and_writing_one_kind_of_database_stays_on_spark(shop):
    read = ab.read(shop.ReadOrders("orders.db"), shop.Order)
    out = read.filter(lambda order: order.price > 0).write(shop.WriteOrders("sold.db"))

    assert "" == ab.compile(out, on="spark").plan.one_thread


class Unclosable(ab.Sink):
    def __init__(self, log):
        self.log = str(log)

    def write(self, items):
        pass

    def close(self):
        with Path(self.log).open("a") as file:
            file.write("closed\n")
        msg = "no"
        raise ValueError(msg)


def test_sinks_are_closed_although_one_fails_and_the_checkpoint_is_free(
    spark, tmp_path
):
    logs = [tmp_path / "first", tmp_path / "second"]
    numbers = ab.from_iterable([1, 2], int)
    outs = [numbers.write(Unclosable(log)) for log in logs]

    for _ in range(2):
        with pytest.raises(OutputError, match="close failed"):
            ab.run(*outs, checkpoint=tmp_path / "checkpoint")

    assert ["closed\nclosed\n"] * 2 == [log.read_text() for log in logs]


class Careless(ab.Sink):
    """Keeps the number of its last epoch whatever the job is called."""

    def open(self, job, type):
        return 99

    def write(self, items):
        return [ab.Malformed(item, "no threes") for item in items if item == 3]


class Careful(Careless):
    def open(self, job, type):
        return 0


def test_a_new_job_has_no_epoch_that_was_committed(engine):
    out = ab.from_iterable([1, 2], int).write(Careless())

    with pytest.raises(
        OutputError, match=r"Careless, .* has delivered none to it; it returned 99"
    ):
        ab.run(out, on=engine)


class Leaving(ab.Sink):
    def write(self, items):
        raise SystemExit(4)


def test_a_sink_that_ends_its_process_is_named():
    line = Leaving.write.__code__.co_firstlineno + 1
    text = rf"\(Leaving, .*write failed, at .*test_own_connector.py:{line}: SystemExit: 4; "

    with pytest.raises(OutputError, match=text):
        opened(Leaving()).write(1, [1], refuse)


@pytest.mark.parametrize("passing", [KeyboardInterrupt, AbortedError])
def test_what_ends_a_job_passes_a_sink(passing):
    class Stopped(ab.Sink):
        def write(self, items):
            raise passing

    with pytest.raises(passing):
        opened(Stopped()).write(1, [1], refuse)


class Picky(ab.Sink):
    """Names an equal object, or the very item; out of order."""

    def __init__(self, *, same):
        self.same = same

    def write(self, items):
        bad = [item for item in items if item[0] == "x"]
        return [
            ab.Malformed(item if self.same else list(item), "no x")
            for item in reversed(bad)
        ]


@pytest.mark.parametrize("on", ["sequential", "local"])
@pytest.mark.parametrize(
    ("same", "where"),
    [
        (True, ["item 4 of sink write", "item 2 of sink write"]),
        (False, ["one of items 1 to 5 of sink write"] * 2),
    ],
)
def test_the_place_of_an_item_that_a_sink_does_not_take(on, same, where):
    lost = []
    out = ab.from_iterable([["a"], ["x", 1], ["b"], ["x", 2], ["c"]]).write(
        Picky(same=same)
    )

    ab.run(out, on=on, on_error=ab.dead_letter(lost.append))

    assert where == [one.where for one in lost]


def test_an_item_that_a_sink_does_not_take_is_named():
    out = ab.from_iterable([1, 2, 3], int).write(Careful())

    with pytest.raises(OutputError, match=r"Careful, .*does not take 3: no threes; "):
        ab.run(out, on="local")


class Stubborn(ab.Source):
    live = True

    def read(self, partition, position):
        yield 1, 1

    def born_s(self, item):
        return "yesterday"


def test_a_birth_that_is_no_number_is_told(engine):
    out = ab.read(Stubborn(), int).to_list()

    with pytest.raises(
        InputError, match=r"Stubborn, .*born_s .*it returned 'yesterday'"
    ):
        ab.run(out, on=engine)


def test_a_source_that_holds_up_others_is_explained_by_what_it_shares():
    plan = ab.compile(ab.read(Counting(), int).map(see_taken).to_list()).plan

    texts = {one.operator: one.why for one in plan.sequential}
    assert "keeps nothing" not in texts["read"]
    assert "taken" in texts["read"]


@pytest.fixture
def numbers(tmp_path):
    """Two partitions; an offset of the first holds no row, one of the second a bad one."""
    (tmp_path / "a").write_text("1\n2\n\n4\n5\n")
    (tmp_path / "b").write_text("6\nx\n8\n")
    return str(tmp_path)


@pytest.mark.parametrize("locked", [False, True], ids=["travels", "does not travel"])
def test_a_source_with_offsets_is_read_partition_after_partition(
    engine, numbers, locked
):
    lost = []
    out = ab.read(Numbered(numbers, locked=locked), int).to_list()

    ab.run(out, on=engine, epoch_items=2, on_error=ab.dead_letter(lost.append))

    assert [1, 2, 4, 5, 6, 8] == out.items
    assert [("x", "row 7 of read")] == [(one.item, one.where) for one in lost]


def test_a_live_source_with_offsets_goes_on_with_what_is_added(engine, numbers):
    """
    Each partition gives its share; within a partition the order is that of the offsets.
    """
    out = ab.read(Numbered(numbers, follow=True), int).to_list()
    job = ab.start(out, on=engine, on_error="skip")
    until(job, lambda: len(out.items) == 6)

    with (Path(numbers) / "a").open("a") as file:
        file.write("9\n")
    until(job, lambda: len(out.items) == 7)
    job.stop()

    of_a = [n for n in out.items if n not in (6, 8)]
    assert ([1, 2, 4, 5, 9], [6, 8]) == (of_a, [n for n in out.items if n not in of_a])
    assert "stopped" == job.status


@spark
def test_a_job_goes_on_behind_the_offsets_that_it_has_read(numbers, tmp_path_factory):
    where = tmp_path_factory.mktemp("checkpoint")
    sink = Files(str(tmp_path_factory.mktemp("out")))

    def run():
        rows = ab.read(Numbered(numbers), int)
        ab.run(rows.write(sink), checkpoint=where, epoch_items=2)

    with pytest.raises(InputError, match="must be a number"):
        run()
    assert ["1", "2", "4", "5", "6"] == sink.lines()
    (Path(numbers) / "b").write_text("6\n7\n8\n")
    run()

    assert ["1", "2", "4", "5", "6", "7", "8"] == sink.lines()


def test_the_latency_of_rows_that_workers_read_counts_from_their_birth(engine, numbers):
    out = ab.read(Numbered(numbers), int).to_list()

    metrics = ab.run(out, on=engine, on_error="skip").metrics()

    if engine != "sequential":
        assert metrics.latency.p50_ms > 1_000_000


@dataclass
class NumberedTables(Numbered):
    """The same rows, of which a range without a bad row becomes a table."""

    def read_range(self, partition, start, end):
        lines = list(enumerate(self._lines(partition)))[start:end]
        found = [((partition, offset, line), offset) for offset, line in lines if line]
        rows, offsets = zip(*found, strict=True) if found else ((), ())
        return ab.RowRange(rows, offsets, [2_000_000_000.0] * len(rows))

    def decode_table(self, rows):
        lines = [line for _, _, line in rows]
        if not all(line.isdecimal() for line in lines):
            return None
        return pa.table({"value": [int(line) for line in lines]})


def test_ranges_that_become_tables_give_what_their_rows_give(engine, numbers):
    lost = []
    out = ab.read(NumberedTables(numbers), int).to_list()

    ab.run(out, on=engine, epoch_items=2, on_error=ab.dead_letter(lost.append))

    assert [1, 2, 4, 5, 6, 8] == out.items
    assert [("x", "row 7 of read")] == [(one.item, one.where) for one in lost]


def read_piece_of(source, partition, start, end, kind=int):
    """Return what a worker reads of offsets whose rows are numbered from 11."""
    op = Op("read", ReadSource(source), type=kind)
    piece = RangePiece(op.name, 11, end - start, OffsetRange(partition, start, end))
    return read_offsets(piece, op, stop, form_of(kind))


def test_workers_read_a_range_as_a_table_with_the_births_of_its_rows(numbers):
    read, births = read_piece_of(NumberedTables(numbers), "a", 1, 5)

    assert {"value": [2, 4, 5]} == read.table.to_pydict()
    assert [11, 13, 14] == read.numbers.tolist()
    assert 2_000_000_000.0 == births.oldest_s


@dataclass
class Tables(Numbered):
    """Rows whose table is `table`, and whose ranges are `range`."""

    table: object = None
    range: object = None

    def read_range(self, partition, start, end):
        return self.range

    def decode_table(self, rows):
        return self.table


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (pa.table({"value": pa.array([1, 2], pa.int32())}), "value: int32; cast"),
        (pa.table({"other": [1, 2]}), "other: int64"),
        (pa.table({"value": [1, 2, 3]}), "with 2 rows"),
        (pa.table({"value": [1, None]}), "nulls only where the type has None"),
        ([1, 2], r"it returned \[1, 2\]"),
    ],
    ids=["type", "name", "rows", "null", "no table"],
)
def test_a_table_that_is_not_that_of_the_rows_is_told(numbers, table, why):
    with pytest.raises(InputError, match=rf"Tables, .*decode_table .*{why}"):
        read_piece_of(Tables(numbers, table=table), "a", 0, 2)


@pytest.mark.parametrize(
    "given",
    [
        ab.RowRange(["1", "2"], [0]),
        ab.RowRange(["1", "2"], [0, 0]),
        ab.RowRange(["1", "2"], [1, 0]),
        ab.RowRange(["1", "2"], [1, 2]),
        ab.RowRange(["1"], [0.5]),
        ["1", "2"],
    ],
    ids=["too few", "twice", "backwards", "beyond", "no integer", "no range"],
)
def test_a_range_without_the_offsets_of_its_rows_is_told(numbers, given):
    with pytest.raises(InputError, match=r"Tables, .*read_range\('a', 0, 2\) returned"):
        read_piece_of(Tables(numbers, range=given), "a", 0, 2)


class Forgetful(ab.Source):
    def read(self, partition, position):
        yield from [("1", 1), ("2", 2)]

    def decode(self, rows):
        return rows[:-1]


def test_a_decoder_that_loses_rows_is_told(engine):
    out = ab.read(Forgetful(), str).to_list()

    with pytest.raises(
        InputError, match=r"Forgetful, .* an item for each row; for \d rows"
    ):
        ab.run(out, on=engine)


class Vague(Forgetful):
    def offsets(self, partition):
        return "everything"


class Backwards(Vague):
    def offsets(self, partition):
        return 3, 9


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            Vague(),
            r"Vague, .*offsets .*it returned 'everything'; return two whole numbers",
        ),
        (Backwards(), r"Backwards, .*must yield the offset after each row.*gave 1"),
    ],
)
def test_offsets_that_are_none_are_told(source, why):
    with pytest.raises(InputError, match=why):
        ab.run(ab.read(source, str).to_list(), on="sequential")


class Remote(ab.Source):
    """A source whose every answer costs a journey; `fails`: from the third one on."""

    def __init__(self, rows, *, fails=False):
        self.rows, self.fails, self.journeys = rows, fails, 0
        self.live = fails

    def offsets(self, partition):
        self.journeys += 1
        if self.fails and self.journeys > 2:
            msg = "the broker is gone"
            raise OSError(msg)
        return 0, self.rows

    def read(self, partition, position):
        self.journeys += 1
        for n in range(position, self.rows):
            yield n, n + 1


def take_all(reader, rows):
    while not reader.ended:
        rows += [item for item, _ in reader.poll(1, 0.0)]


def test_a_source_with_offsets_is_read_ahead_and_not_row_by_row():
    source = Remote(300)
    reader = RangedReader(Op("read", ReadSource(source)), stop)

    rows = []
    take_all(reader, rows)

    assert list(range(300)) == rows
    assert source.journeys < 10


def test_what_was_read_ahead_comes_before_a_failure():
    reader = RangedReader(Op("read", ReadSource(Remote(30, fails=True))), stop)

    rows = []
    with pytest.raises(InputError, match="the broker is gone"):
        take_all(reader, rows)

    assert list(range(30)) == rows


class Rolls(ab.Source):
    """Rolls of dice, which say before a run what is wrong with them."""

    def __init__(self, sides: int) -> None:
        self.sides = sides

    def read(self, partition, position):
        yield from ((n % self.sides, n + 1) for n in range(position or 0, 9))

    def find_faults(self, type):
        if self.sides < 1:
            yield f"a die has at least one side; got {self.sides}", "give more sides"
        if type is not int:
            yield f"rolls are of type int; got {type.__name__}", "read them as int"


def test_a_source_of_ones_own_is_refused_with_all_its_faults_before_it_is_read():
    with pytest.raises(GraphError) as caught:
        ab.run(ab.read(Rolls(0), str, name="rolls").to_list(), on="sequential")

    text = str(caught.value)
    assert "a die has at least one side; got 0; give more sides" in text
    assert "rolls are of type int; got str; read them as int" in text
    assert 2 == text.count("tests/connectors/test_own_connector.py:")


class Ledger(ab.Sink):
    """A ledger, which says before a run what it cannot take."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, items):
        raise AssertionError

    def find_faults(self, type):
        if not self.path:
            yield "a ledger has a path; got none", "name one"
        if type is not int:
            yield f"entries are of type int; got {type}", "map them to numbers"


def test_a_sink_of_ones_own_is_refused_with_all_its_faults_before_anything_runs():
    with pytest.raises(GraphError) as caught:
        ab.run(ab.from_iterable(["1"], str).write(Ledger("")), on="sequential")

    text = str(caught.value)
    assert "a ledger has a path; got none; name one" in text
    assert "entries are of type int; got <class 'str'>; map them to numbers" in text


def test_a_sink_of_ones_own_is_asked_for_faults_when_the_type_is_unknown():
    untyped = ab.from_iterable([1]).map(lambda n: n)

    with pytest.raises(GraphError, match="entries are of type int; got None"):
        ab.explain(untyped.write(Ledger("x")))


def test_a_source_of_ones_own_without_faults_is_read():
    assert [0, 1, 2] * 3 == ab.testing.outputs(ab.read(Rolls(3), int))


def test_parts_are_written_and_committed_in_order(engine, tmp_path):
    sink = Parted(tmp_path / "out")

    ab.run(ab.from_iterable(range(100), int).write(sink), on=engine)

    assert [*range(100)] == sink.rows()


class HalfParted(ab.Sink):
    def write_part(self, part, items):
        return None


def test_a_sink_in_parts_must_commit_them():
    with pytest.raises(
        ArgumentError, match=r"must define commit_parts\(self, epoch, pa"
    ):
        HalfParted()


class Misplacing(Parted):
    def write_part(self, part, items):
        part.refuse(len(items), "there is none")
        return super().write_part(part, items)


def test_a_refused_place_that_no_item_has_is_told(engine, tmp_path):
    stream = ab.from_iterable(range(10), int).write(Misplacing(tmp_path / "out"))

    with pytest.raises(OutputError, match=r"must refuse items by their place"):
        ab.run(stream, on=engine, on_error="skip")


class Opening(Parted):
    """It relies on a connection that `open` makes, which tasks do not call."""

    def open(self, job, type):
        self.connection = self.directory

    def write_part(self, part, items):
        return str(self.connection)


def test_a_part_sees_nothing_that_open_has_set(engine, tmp_path):
    stream = ab.from_iterable(range(10), int).write(Opening(tmp_path / "out"))

    with pytest.raises(OutputError, match=r"no attribute 'connection'; correct write_"):
        ab.run(stream, on=engine)
