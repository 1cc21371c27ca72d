"""Files on the local engine: read in chunks, and still as the sequential engine does."""

import gzip
import threading
import time
import zlib
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.local.source_thread import Alone, Flusher, Gate, SourceThread
from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.operators.sources import ReadFiles
from anabranch.runtime.ambient import Ambient
from anabranch.runtime.failures import stop


class Trade(NamedTuple):
    symbol: str
    volume: int


def doubled(trade: Trade) -> Trade:
    return Trade(trade.symbol, trade.volume * 2)


def picky(trade: Trade) -> Trade:
    if trade.volume % 1000 == 7:
        msg = "seven"
        raise ValueError(msg)
    return trade


ROWS = 20_000
BAD = (1, 2, 9_999, 10_000, 15_555, ROWS)


@pytest.fixture
def trades(tmp_path):
    path = tmp_path / "trades.csv"
    rows = "".join(f"S{n % 7},{n}\n" for n in range(1, ROWS + 1))
    path.write_text("symbol,volume\n" + rows)
    return path


@pytest.fixture
def spoilt(tmp_path):
    """
    A file of several pieces in which some rows cannot be read.
    """
    path = tmp_path / "spoilt.csv"
    rows = (f"S{n % 7},{'?' if n in BAD else n}\n" for n in range(1, ROWS + 1))
    path.write_text("symbol,volume\n" + "".join(rows))
    return path


def volumes(path, **options):
    sink = ab.read_csv(path, Trade).map(doubled).map(lambda t: t.volume).to_list()
    ab.run(sink, **options)
    return sink.items


def test_a_file_is_read_whole_and_in_order(trades):
    assert [2 * n for n in range(1, ROWS + 1)] == volumes(trades, on="local")


def test_a_compressed_file_too(trades):
    packed = trades.with_suffix(".csv.gz")
    packed.write_bytes(gzip.compress(trades.read_bytes()))

    assert [2 * n for n in range(1, ROWS + 1)] == volumes(packed, on="local")


def test_two_files_take_turns_by_the_numbers_of_their_rows(trades, spoilt):
    """
    A row that is left out has its turn all the same.
    """

    def run(on):
        one, other = (ab.read_csv(path, Trade) for path in (spoilt, trades))
        sink = ab.union(one, other).to_list()
        ab.run(sink, on=on, on_error="skip")
        return sink.items

    assert run("sequential") == run("local")


@pytest.mark.parametrize("degree", [1, 3])
def test_bad_rows_are_left_out_and_nothing_else(spoilt, degree):
    good = [2 * n for n in range(1, ROWS + 1) if n not in BAD]

    assert good == volumes(spoilt, on="local", degree=degree, on_error="skip")


def test_bad_rows_become_dead_letters_each_with_its_place(spoilt):
    letters = []
    good = [2 * n for n in range(1, ROWS + 1) if n not in BAD]

    found = volumes(spoilt, on="local", on_error=ab.dead_letter(letters.append))

    assert good == found
    assert [f"{spoilt}, row {n} (line {n + 1})" for n in BAD] == [
        letter.where for letter in letters
    ]


def test_a_bad_row_stops_the_program_and_is_named(spoilt):
    with pytest.raises(
        ab.errors.InputError, match=r"row 1 \(line 2\).*test_source\.py"
    ):
        volumes(spoilt, on="local")


def test_what_comes_before_a_bad_row_reaches_its_sink(tmp_path):
    """
    As on the sequential engine: only then does the program stop.
    """
    path = tmp_path / "n.csv"
    path.write_text("value\n" + "".join(f"{n}\n" for n in range(100)) + "x\n")
    sink = ab.read_csv(path, int).to_list()

    with pytest.raises(ab.errors.InputError, match="row 101"):
        ab.run(sink, on="local")

    assert list(range(100)) == sink.items


def test_items_behind_bad_rows_are_named_by_their_own_numbers(spoilt):
    """
    An operator that fails tells which item it was: numbers count the bad rows too.
    """
    letters = []
    sink = ab.read_csv(spoilt, Trade).map(picky).to_list()

    ab.run(sink, on="local", on_error=ab.dead_letter(letters.append))

    places = [letter.where for letter in letters if "seven" in str(letter.error)]
    expected = [n for n in range(1, ROWS + 1) if n % 1000 == 7 and n not in BAD]
    assert [f"item {n} of read_csv" for n in expected] == places


def test_a_program_can_be_stopped_in_the_middle_of_a_file(trades):
    """
    What was delivered is the beginning of the file, without gaps.
    """
    begun, taken = threading.Event(), []

    def take(trade):
        taken.append(trade.volume)
        begun.set()

    job = ab.start(ab.read_csv(trades, Trade).for_each(slow_down(take)), on="local")
    assert begun.wait(30)
    job.stop()

    assert 0 < len(taken) < ROWS
    assert list(range(1, len(taken) + 1)) == taken


def slow_down(take):
    waiting = threading.Event()

    def slowly(trade):
        take(trade)
        waiting.wait(0.001)

    return slowly


def test_an_item_that_does_not_fit_its_file_is_left_out_alone(tmp_path, trades):
    """
    Items are written many at once; one that cannot be takes no other with it.
    """

    def odd(trade: Trade):
        return (
            trade._replace(symbol=["no", "scalar"]) if trade.volume == 5000 else trade
        )

    def written(on):
        letters, path = [], tmp_path / f"{on}.csv"
        sink = ab.read_csv(trades, Trade).map(odd).write_csv(path)
        ab.run(sink, on=on, on_error=ab.dead_letter(letters.append))
        return path.read_bytes(), [letter.item for letter in letters]

    rows, refused = written("local")

    assert [Trade(["no", "scalar"], 5000)] == refused
    assert (rows, refused) == written("sequential")


def test_a_source_that_is_stopped_reads_no_further(trades):
    class Once:
        """
        Takes one batch, and wants no more of it.
        """

        asked = 0

        def limit(self, source):
            self.asked += 1
            return 10

        def takes_tables(self, source):
            return False

        def feed(self, source, batch):
            thread.stopping = True

        def await_room(self, source):
            pass

        def end(self, source):
            pass

        def has_passed(self, source):
            return False

        fail = end

    into = Once()
    thread = SourceThread(
        Op("trades", ReadFiles(str(trades), "csv", Trade)),
        index=0,
        turns=Alone(),
        gate=Gate(),
        on_error=stop,
        into=into,
        flusher=Flusher(into.fail, Ambient()),
        ambient=Ambient(),
    )
    thread.start()
    thread.thread.join(30)

    assert 10 == thread.read
    assert into.asked <= 2


class Reading(NamedTuple):
    number: int
    value: float


@ab.declare(state="stateless")
def invert(reading: Reading) -> Reading:
    time.sleep(0.0005)  # so that the source is ahead when it breaks off
    return reading._replace(value=1 / (reading.number % 53 - 3))


@pytest.mark.parametrize("degree", [1, 3])
def test_all_before_a_truncated_file_is_delivered_although_failed_items_are_skipped(
    tmp_path, degree
):
    numbers = range(4000)
    rows = "number,value\n" + "".join(f"{n},{n * 0.37}\n" for n in numbers)
    whole = gzip.compress(rows.encode())
    path = tmp_path / "readings.csv.gz"
    path.write_bytes(whole[: len(whole) // 2])
    text = zlib.decompressobj(wbits=31).decompress(path.read_bytes()).decode()
    complete = text.count("\n") - 1
    expected = [n for n in numbers[:complete] if n % 53 != 3]
    out = ab.read_csv(path, Reading).map(invert).to_list()

    with pytest.raises(InputError, match="must be a whole gzip file"):
        ab.run(out, on="local", degree=degree, on_error="skip")

    assert expected == [reading.number for reading in out.items]
