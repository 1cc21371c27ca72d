"""A checkpoint goes on with a program whose names or tuple types have changed."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import field, make_dataclass
from typing import Any, NamedTuple

import pytest

import anabranch as ab
from anabranch.cli.main import main
from anabranch.epochs.checkpoint.migrate import Addition, refuse_addition
from anabranch.errors import CheckpointError, OperatorError
from tests import needs
from tests.engines.spark.imitation import Cluster, imitated
from tests.engines.spark.test_clocks import undisturbed

BROKEN = [60]  # the number on which a map fails, until somebody mends it


class Number(NamedTuple):
    n: int
    key: int


def add(total: int, number: Number) -> tuple[int, Number]:
    return total + number.n, Number(total + number.n, number.key)


def make_program(folder, source: str, scan: str):
    broken = BROKEN[0]

    def check(number: Number) -> Number:
        if number.n == broken:
            raise ValueError(number)
        return number

    numbers = ab.read_csv(folder / "numbers.csv", Number, name=source)
    sums = numbers.map(check, name="check").key_by("key").scan(add, 0, name=scan)
    return sums.write_csv(folder / "sums.csv", name="sums")


@pytest.fixture
def folder(tmp_path):
    """A job that has failed, with a checkpoint of some epochs."""
    rows = "".join(f"{n},{n % 3}\n" for n in range(100))
    (tmp_path / "numbers.csv").write_text(f"n,key\n{rows}")
    with pytest.raises(OperatorError):
        ab.run(
            make_program(tmp_path, "numbers", "scan"),
            checkpoint=tmp_path / "old",
            epoch_items=20,
        )
    return tmp_path


def rename(folder, *renames, to="new"):
    options = [word for one in renames for word in ("--rename", one)]
    return main(
        ["checkpoint", "migrate", str(folder / "old"), *options, "-o", str(folder / to)]
    )


@pytest.mark.spark
def test_a_job_goes_on_under_other_names(folder, monkeypatch, capsys):
    """
    The same names in two places, and a chain of names, are told apart.
    """
    monkeypatch.setattr("tests.epochs.checkpoint.test_migrate.BROKEN", [-1])
    program = make_program(folder, "scan", "total")

    with pytest.raises(CheckpointError, match=r"operator 'total' .* is new"):
        ab.run(program, checkpoint=folder / "old", epoch_items=20)
    assert 0 == rename(folder, "scan=total", "numbers=scan")
    job = ab.run(program, checkpoint=folder / "new", epoch_items=20)

    assert job.metrics().epochs <= 3  # of five: the rest
    totals, expected = [0, 0, 0], []
    for n in range(100):
        totals[n % 3] += n
        expected.append(f"{totals[n % 3]},{n % 3}")
    assert ["n,key", *expected] == (folder / "sums.csv").read_text().splitlines()


REFUSED = {
    "no such operator": (["scna=total"], "it has no 'scna'; it has"),
    "a sink": (["sums=totals"], "a sink must keep its name"),
    "a name that is taken": (["scan=numbers"], "'numbers' is the name of another"),
    "two of one name": (["scan=one", "numbers=one"], "names must differ; got one, one"),
}


@pytest.mark.spark
def test_what_cannot_be_renamed_is_refused_and_nothing_is_left(folder, capsys):
    for renames, words in REFUSED.values():
        assert 1 == rename(folder, *renames)
        assert words in " ".join(capsys.readouterr().err.split())
    assert 1 == rename(folder, "scan=total", to="old")
    assert {"numbers.csv", "old"} == {
        path.name for path in folder.iterdir() if "sums" not in path.name
    }


OLD = [("key", int), ("n", int)]
TUPLE: Any = NamedTuple("Trade", OLD)
WITH_VENUE: Any = NamedTuple("Trade", [*OLD, ("venue", str)])
WITH_VENUE.__new__.__defaults__ = ("home",)
WITH_VENUE._field_defaults = {"venue": "home"}
VENUE = ("venue", str, field(default="home"))
TYPES = {
    "named tuples": (TUPLE, WITH_VENUE),
    "dataclasses": (
        make_dataclass("Trade", OLD, frozen=True),
        make_dataclass("Trade", [*OLD, VENUE], frozen=True),
    ),
}


def run_trades(monkeypatch, folder, type, *, upto, checkpoint, venue=()):
    """Show each trade with the last one of its key, and windows of three; fail late."""

    def pair(last, trade):
        if trade.n == upto:
            raise ValueError(trade)
        return trade, f"{trade} after {last}"

    trades = ab.from_iterable(
        [type(n % 3, n, *venue) for n in range(40)], type, name="trades"
    )
    pairs = trades.key_by("key").scan(pair, None, name="pair")
    windows = trades.key_by("key").window(count=3)
    with imitated(monkeypatch, Cluster(undisturbed), folder / "hosts"):
        ab.run(
            pairs.write_jsonl(folder / "pairs.jsonl", name="pairs"),
            windows.aggregate(repr).write_jsonl(
                folder / "windows.jsonl", name="windows"
            ),
            checkpoint=checkpoint,
            epoch_items=10,
            degree=2,
        )


@pytest.mark.parametrize("where", needs.quick(1, ["store", "disk"]))
@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
def test_states_get_the_default_of_an_added_attribute(
    tmp_path, monkeypatch, capsys, types, where
):
    old, new = types

    def locate(name):
        return f"{'local://' if where == 'store' else ''}{tmp_path / name}"

    with pytest.raises(OperatorError):
        run_trades(monkeypatch, tmp_path, old, upto=25, checkpoint=locate("old"))
    add = ["--add", "Trade.venue=str", "-o", locate("new")]
    assert 0 == main(["checkpoint", "migrate", locate("old"), *add])
    capsys.readouterr()
    run_trades(
        monkeypatch, tmp_path, new, upto=-1, checkpoint=locate("new"), venue=("away",)
    )

    lines = (tmp_path / "pairs.jsonl").read_text().splitlines()
    assert 40 == len(lines)
    assert "venue='away') after Trade(key=2, n=17, venue='home')" in lines[20]
    windows = (tmp_path / "windows.jsonl").read_text()
    assert "n=18, venue='home'), Trade(key=0, n=21, venue='away')" in windows
    assert 2 == windows.count("home")  # trades 18 and 19 were in open windows


def test_an_added_attribute_without_a_default_is_refused(tmp_path, monkeypatch, capsys):
    bare: Any = NamedTuple("Trade", [*OLD, ("venue", str)])
    with pytest.raises(OperatorError):
        run_trades(monkeypatch, tmp_path, TUPLE, upto=25, checkpoint=tmp_path / "old")
    new = tmp_path / "new"
    add = ["--add", "Trade.venue=str", "-o", str(new)]
    assert 0 == main(["checkpoint", "migrate", str(tmp_path / "old"), *add])
    capsys.readouterr()

    with pytest.raises(
        CheckpointError, match="'venue' was added, so it must have a def"
    ):
        run_trades(monkeypatch, tmp_path, bare, upto=-1, checkpoint=new, venue=("",))


TRADE = "Trade(key: int, n: int)"
ADDITIONS = {
    "no such type": (Addition("Trad", "v", "str"), "it has no 'Trad'; it has Trade"),
    "an attribute that is there": (Addition("Trade", "n", "str"), "Trade has 'n'"),
    "rows of two shapes": (Addition("Trade", "v", "str"), r"sink 'out' \(write_csv\)"),
}


@pytest.mark.parametrize(("addition", "words"), ADDITIONS.values(), ids=ADDITIONS)
def test_what_cannot_be_added_is_refused(addition, words):
    out = {"role": "sink", "kind": "write_csv", "type": None, "columns": TRADE}

    with pytest.raises(CheckpointError, match=words):
        refuse_addition({"operators": {"out": out}, "types": [TRADE]}, addition)


def write_trades(monkeypatch, folder, type, form, *, upto, checkpoint="old"):
    """Write trades; fail at one."""

    def check(trade):
        if trade.n == upto:
            raise ValueError(trade)
        return trade

    trades = ab.from_iterable([type(n, n) for n in range(40)], type, name="trades")
    write = getattr(trades.map(check, type=type), f"write_{form}")
    with imitated(monkeypatch, Cluster(undisturbed), folder / "hosts"):
        ab.run(
            write(folder / "out", name="out"),
            checkpoint=folder / checkpoint,
            epoch_items=10,
            degree=2,
        )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_type_that_was_written_keeps_its_columns(tmp_path, monkeypatch, capsys, form):
    with pytest.raises(OperatorError):
        write_trades(monkeypatch, tmp_path, TUPLE, form, upto=25)
    add = ["--add", "Trade.venue=str", "-o", str(tmp_path / "new")]

    assert 0 != main(["checkpoint", "migrate", str(tmp_path / "old"), *add])

    assert "sink 'out'" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_job_does_not_go_on_with_other_columns_than_its_output_has(
    tmp_path, monkeypatch, capsys, form
):
    """
    Checkpoints of earlier releases do not say what was written; the output does.
    """
    monkeypatch.setattr("anabranch.epochs.checkpoint.migrate.COLUMNS", "not there")
    with pytest.raises(OperatorError):
        write_trades(monkeypatch, tmp_path, TUPLE, form, upto=25)
    add = ["--add", "Trade.venue=str", "-o", str(tmp_path / "new")]
    assert 0 == main(["checkpoint", "migrate", str(tmp_path / "old"), *add])
    capsys.readouterr()

    with pytest.raises(CheckpointError, match="those before have key, n; "):
        write_trades(monkeypatch, tmp_path, WITH_VENUE, form, upto=-1, checkpoint="new")


def test_who_adds_an_attribute_is_told_how_to_migrate(tmp_path, monkeypatch):
    with pytest.raises(OperatorError):
        run_trades(monkeypatch, tmp_path, TUPLE, upto=25, checkpoint=tmp_path / "old")

    with pytest.raises(CheckpointError, match=r"old --add Trade\.venue=str -o NEW"):
        run_trades(
            monkeypatch, tmp_path, WITH_VENUE, upto=-1, checkpoint=tmp_path / "old"
        )


class Tick(NamedTuple):
    ts: int
    key: int


class TickAtHome(NamedTuple):
    ts: int
    key: int
    venue: str = "home"


HOME = ", venue='home'"
TickAtHome.__name__ = TickAtHome.__qualname__ = "Tick"


class Gaps(ab.Operator):
    """Emit the last item of a key some time after it, by a timer."""

    def __init__(self) -> None:
        self.last: Any = None

    def process(self, item):
        self.last = item
        self.wake_at(item.ts + 7)
        yield "first", item

    def on_time(self, time):
        yield "late", time, self.last


def follow(last, tick):
    return tick, (tick, last)


def make_counter():
    seen: dict[int, Any] = {}

    def number(tick):
        seen[tick.key] = seen.get(tick.key, 0) + 1
        return tick, seen[tick.key]

    return number


KINDS = {
    "scan": lambda s, name: s.scan(follow, None, name=name),
    "keyed scan": lambda s, name: s.key_by("key").scan(follow, None, name=name),
    "window": lambda s, name: (
        s.key_by("key").window(count=4).aggregate(tuple, name=name)
    ),
    "time window": lambda s, name: (
        s.event_time("ts").key_by("key").window(time=9).aggregate(tuple, name=name)
    ),
    "session": lambda s, name: (
        s.event_time("ts").key_by("key").window(gap=3).aggregate(tuple, name=name)
    ),
    "join": lambda s, name: s.join(
        s.filter(is_even), on="key", left_window=2, right_window=2, name=name
    ),
    "join_latest": lambda s, name: s.join_latest(
        s.filter(is_even), on="key", name=name
    ),
    "timers": lambda s, name: s.event_time("ts").key_by("key").apply(Gaps, name=name),
    "forget_after": lambda s, name: (
        s.event_time("ts").key_by("key", forget_after=4).scan(follow, None, name=name)
    ),
    "lifted": lambda s, name: s.map(make_counter(), name=name),
    "iterate": lambda s, name: (
        s.window(count=3)
        .aggregate(tuple, name=name)
        .iterate(lambda inner: inner.map(repr), rounds=1)
    ),
}


def is_even(tick) -> bool:
    return tick.ts % 2 == 0


@ab.declare(state="stateless")
def show(value) -> str:
    return repr(value)


def make_ticks(type, kind, name, fails_at):
    def check(tick):
        if tick.ts == fails_at:
            raise ValueError(tick)
        return tick

    ticks = [type(n + n // 9 * 5, n * n % 5) for n in range(60)]
    checked = ab.from_iterable(ticks, type, name="ticks").map(check, type=type)
    return KINDS[kind](checked, name).map(show)


CHANGES = [("rename", 47), ("add", 0), ("rename", 0), ("rename", 60), ("add", 60)]


@pytest.mark.parametrize(("change", "late"), needs.quick_rows(2, CHANGES))
@pytest.mark.parametrize("kind", needs.quick(1, sorted(KINDS)))
def test_every_state_goes_on_in_the_copy_whatever_the_old_job_does(
    tmp_path, monkeypatch, kind, change, late
):
    """
    If `late` is given, the old job goes on for a while after its checkpoint was copied.
    """
    first, then = (Tick, Tick) if change == "rename" else (Tick, TickAtHome)
    name = "after" if change == "rename" else "before"

    def run(type, name, fails_at, checkpoint, out):
        built = make_ticks(type, kind, name, fails_at).write_jsonl(out, name="out")
        with imitated(monkeypatch, Cluster(undisturbed), tmp_path / "hosts"):
            ab.run(built, checkpoint=checkpoint, epoch_items=8, degree=2)

    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "out"
    with pytest.raises(OperatorError):
        run(first, "before", 34, old, out)
    changed = (
        ["--rename", "before=after"]
        if change == "rename"
        else ["--add", "Tick.venue=str"]
    )
    assert 0 == main(["checkpoint", "migrate", str(old), *changed, "-o", str(new)])
    if late:
        keep_outputs(tmp_path, "kept")
        with contextlib.suppress(OperatorError):
            run(first, "before", late, old, out)
        put_outputs_back(tmp_path, "kept")
    run(then, name, -1, new, out)

    wanted = make_ticks(then, kind, name, -1).to_list()
    ab.run(wanted, on="sequential")
    parts = sorted(out.glob("part-*"))
    found = [
        json.loads(line) for part in parts for line in part.read_text().splitlines()
    ]
    # what was written before the copy was made has the old type
    assert [row.replace(HOME, "") for row in wanted.items] == [
        row.replace(HOME, "") for row in found
    ]


def keep_outputs(folder, name) -> None:
    (folder / name).mkdir()
    for path in [*folder.glob("out*"), *folder.glob(".out*")]:
        shutil.copytree(path, folder / name / path.name)


def put_outputs_back(folder, name) -> None:
    for path in [*folder.glob("out*"), *folder.glob(".out*")]:
        shutil.rmtree(path)
    for path in (folder / name).iterdir():
        shutil.move(path, folder / path.name)
