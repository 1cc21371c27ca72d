"""An item is what it was when it was given, whatever its operator does to it later."""

from __future__ import annotations

import heapq
import itertools
import linecache
import sys
import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import anabranch as ab
from anabranch.errors import OperatorError
from anabranch.operators.copied import copy_output
from tests.programs.compare import run_imitated


class Trade(NamedTuple):
    symbol: str
    volume: int


TRADES = [Trade("ab"[n % 2], n) for n in range(60)]
VOLUMES = [trade.volume for trade in TRADES]
SO_FAR = [VOLUMES[: n + 1] for n in range(60)]


def keep_all(state, trade):
    state.append(trade.volume)
    return state, state


def keep_latest(state, trade):
    state[trade.symbol] = trade.volume
    return state, ("latest", state)


def keep_sorted(state, trade):
    heapq.heappush(state, trade.volume)
    return state, state


def add_up(weights, trade):
    weights += trade.volume
    return weights, weights


class LastThree(ab.Operator):
    def setup(self):
        self.seen = deque(maxlen=3)

    def process(self, trade):
        self.seen.append(trade.volume)
        yield self.seen


class InSevens(ab.Operator):
    def setup(self):
        self.batch = []

    def process(self, trade):
        self.batch.append(trade.volume)
        if len(self.batch) == 7:
            yield self.batch
            self.batch.clear()

    def finish(self):
        yield self.batch
        self.batch.clear()


class Row:
    def __init__(self):
        self.number = -1


def refill_list():
    row = [0, 0]
    for n in range(60):
        row[0], row[1] = n, n * n
        yield row


def refill_object():
    row = Row()
    for n in range(60):
        row.number = n
        yield row


def refill_matrix():
    matrix = np.zeros((2, 3))
    for n in range(60):
        matrix[1, :] = n
        yield matrix[1]


def refill_by_map():
    row = [0]

    def fill(n):
        row[0] = n
        return row

    return map(fill, range(60))


UNSEEN: dict[str, Any] = {}  # functions whose source nobody has
exec(
    """
KEPT = []
def keep_unseen(state, trade):
    state.append(trade.volume)
    return state, state
def refill_unseen():
    row = [0]
    for n in range(60):
        row[0] = n
        yield row
def map_unseen(trade):
    KEPT.append(trade.volume)
    return KEPT
def list_unseen(trade):
    return [map_unseen(trade)]
""",
    UNSEEN,
)


def with_none_kept(make):
    UNSEEN["KEPT"].clear()
    return make()


def write_nested(depth):
    """Return a step that keeps what it gives, in code that is nested too deeply."""
    name = f"<nested {depth}>"
    text = f"""
def step(state, trade):
    state.append({" + ".join(["0"] * depth)} + trade.volume)
    return state, state
"""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names = {}
    sys.setrecursionlimit(sys.getrecursionlimit() + depth)
    exec(compile(text, name, "exec"), names)
    sys.setrecursionlimit(sys.getrecursionlimit() - depth)
    return names["step"]


def give_items(state, trade):
    state[trade.symbol] = trade.volume
    return state, state.values()


class Ring(ab.Operator):
    def setup(self):
        self.ring = np.zeros((2, 2))

    def process(self, trade):
        self.ring[0, 0] = trade.volume
        yield self.ring[0]


class FilledObject:
    def __init__(self):
        self.row = [0]

    def __call__(self, trade):
        for part in range(2):
            self.row[0] = part
            yield self.row


ROW = [0]


def fill_global(trade):
    ROW[0] = trade.volume
    return ROW


class OwnRowSource(ab.Source):
    def __init__(self):
        self.row = [0]

    def partitions(self):
        return ["all"]

    def read(self, partition, position):
        for n in range(position or 0, 60):
            self.row[0] = n
            yield self.row, n + 1


class Refilled:
    def __iter__(self):
        return refill_list()


class RefilledSource(ab.Source):
    def partitions(self):
        return ["all"]

    def read(self, partition, position):
        row = [0]
        for n in range(position or 0, 60):
            row[0] = n
            yield row, n + 1


def refill_parts(trade):
    row = {}
    for part in trade:
        row["part"] = part
        yield row


def give_and_clear(trade):
    batch = []
    for part in range(4):
        batch.append(part)
        if part % 2:
            yield batch
            batch.clear()


def give_by_helper(trade):
    row = [0]
    for part in range(3):
        yield from hand_over(row, part)


def hand_over(row, part):
    row[0] = part
    yield row


def give_inside(trade):
    inner = []
    for part in range(3):
        inner.append(part)
        yield {"inner": inner}


def give_what_another_name_reaches(trade):
    row, rows = [0], []
    rows.append(row)
    yield rows[:]
    row.append(7)


def give_what_a_closure_reaches(trade):
    row = []

    def add(part):
        row.append(part)
        return [row]

    for part in range(2):
        yield add(part)


def give_sometimes_new(trade):
    row = None
    for part in range(4):
        if part % 2 == 0:
            row = []
        row.append(part)
        yield row


class Refilling:
    def __init__(self, end):
        self.row = [-1]
        self.end = end

    def __iter__(self):
        return self

    def __next__(self):
        if self.row[0] == self.end:
            raise StopIteration
        self.row[0] += 1
        return self.row


def give_groups():
    return itertools.groupby(range(9), key=lambda n: n // 4)


def give_rows_of_another():
    yield from Refilling(3)


def give_by_loop():
    for row in map(lambda row: row, Refilling(3)):  # noqa: C417, UP028 - tried
        yield row


def give_until():
    row = [0]

    def fill():
        row[0] += 1
        return row if row[0] < 4 else []

    return iter(fill, [])


class Setting:
    level = 0


def set_level(trade):
    Setting.level = trade.volume
    return Setting


class OwnClass(ab.Operator):
    def setup(self):
        class Total:
            volume = 0

        self.total = Total

    def process(self, trade):
        self.total.volume += trade.volume
        yield self.total


def trades():
    return ab.from_iterable(TRADES, Trade)


PROGRAMS: dict[str, tuple[Any, list[Any]]] = {
    "a scan that gives its list": (lambda: trades().scan(keep_all, []), SO_FAR),
    "the same by key": (
        lambda: trades().key_by("symbol").scan(keep_all, []).map(len),
        [n // 2 + 1 for n in range(60)],
    ),
    "a scan that gives its table in a tuple": (
        lambda: trades().scan(keep_latest, {}).map(lambda pair: sum(pair[1].values())),
        [0, *(2 * n - 1 for n in range(1, 60))],
    ),
    "a scan whose list a library changes": (
        lambda: trades().scan(keep_sorted, []),
        SO_FAR,
    ),
    "a scan that gives its array": (
        lambda: trades().scan(add_up, np.zeros(2)).map(lambda found: float(found[0])),
        [float(n) for n in itertools.accumulate(VOLUMES)],
    ),
    "an operator that gives its queue": (
        lambda: trades().apply(LastThree).map(list),
        [VOLUMES[max(0, n - 2) : n + 1] for n in range(60)],
    ),
    "an operator that empties its batch": (
        lambda: trades().apply(InSevens),
        [VOLUMES[n : n + 7] for n in range(0, 60, 7)],
    ),
    "a flat_map that refills a table": (
        lambda: trades().flat_map(refill_parts),
        [{"part": part} for trade in TRADES for part in trade],
    ),
    "a flat_map that clears what it gave": (
        lambda: trades().flat_map(give_and_clear),
        [[0, 1], [2, 3]] * 60,
    ),
    "a flat_map whose helper refills a row": (
        lambda: trades().flat_map(give_by_helper),
        [[0], [1], [2]] * 60,
    ),
    "a flat_map that changes what lies in its output": (
        lambda: trades().flat_map(give_inside),
        [{"inner": [*range(n + 1)]} for _ in TRADES for n in range(3)],
    ),
    "a flat_map that changes its output by another name": (
        lambda: trades().flat_map(give_what_another_name_reaches),
        [[[0]]] * 60,
    ),
    "a flat_map that changes its output in an inner function": (
        lambda: trades().flat_map(give_what_a_closure_reaches),
        [[[0]], [[0, 1]]] * 60,
    ),
    "a flat_map that begins a new row now and then": (
        lambda: trades().flat_map(give_sometimes_new),
        [[0], [0, 1], [2], [2, 3]] * 60,
    ),
    "a flat_map that returns an iterator of its own": (
        lambda: trades().flat_map(lambda trade: Refilling(1)),
        [[0], [1]] * 60,
    ),
    "a generator that refills a list": (
        lambda: ab.generate(refill_list),
        [[n, n * n] for n in range(60)],
    ),
    "a generator that refills an object": (
        lambda: ab.generate(refill_object).map(lambda row: row.number),
        [*range(60)],
    ),
    "a generator that refills a row of an array": (
        lambda: ab.generate(refill_matrix).map(lambda row: float(row[0])),
        [float(n) for n in range(60)],
    ),
    "a generator by map": (
        lambda: ab.generate(refill_by_map),
        [[n] for n in range(60)],
    ),
    "a scan that gives a view of its table": (
        lambda: trades().scan(give_items, {}).map(sum),
        [0, *(2 * n - 1 for n in range(1, 60))],
    ),
    "an operator that gives a row of its array": (
        lambda: trades().apply(Ring).map(lambda row: float(row[0])),
        [float(n) for n in range(60)],
    ),
    "a flat_map by an object that refills its row": (
        lambda: trades().flat_map(FilledObject()),
        [[0], [1]] * 60,
    ),
    "a map that gives its global row": (
        lambda: trades().map(fill_global),
        [[n] for n in range(60)],
    ),
    "a source that refills an attribute": (
        lambda: ab.read(OwnRowSource()).map(lambda row: row[0]),
        [*range(60)],
    ),
    "a collection that refills a list": (
        lambda: ab.from_iterable(Refilled()),
        [[n, n * n] for n in range(60)],
    ),
    "groups of groupby": (
        lambda: ab.generate(give_groups).map(lambda pair: [*pair[1]]),
        [[0, 1, 2, 3], [4, 5, 6, 7], [8]],
    ),
    "rows of another iterator": (
        lambda: ab.generate(give_rows_of_another),
        [[n] for n in range(4)],
    ),
    "rows that a loop reads lazily": (
        lambda: ab.generate(give_by_loop),
        [[n] for n in range(4)],
    ),
    "rows that a function gives until it ends": (
        lambda: ab.generate(give_until),
        [[1], [2], [3]],
    ),
    "a class whose attribute changes": (
        lambda: trades().map(set_level).map(lambda kind: kind.level),
        VOLUMES,
    ),
    "a class that an operator keeps": (
        lambda: trades().apply(OwnClass).map(lambda kind: kind.volume),
        [*itertools.accumulate(VOLUMES)],
    ),
    "the state of a step without source": (
        lambda: trades().scan(UNSEEN["keep_unseen"], []),
        SO_FAR,
    ),
    "rows of a generator without source": (
        lambda: ab.generate(UNSEEN["refill_unseen"]),
        [[n] for n in range(60)],
    ),
    "what a function without source keeps": (
        lambda: with_none_kept(lambda: trades().map(UNSEEN["map_unseen"])),
        SO_FAR,
    ),
    "a list of what a function without source keeps": (
        lambda: with_none_kept(lambda: trades().flat_map(UNSEEN["list_unseen"])),
        SO_FAR,
    ),
    "the state of a step that is nested too deeply": (
        lambda: trades().scan(write_nested(900), []),
        SO_FAR,
    ),
    "the state of a step in a file that is nested too deeply": (
        lambda: trades().scan(write_nested(2000), []),
        SO_FAR,
    ),
    "a source that refills a list": (
        lambda: ab.read(RefilledSource()),
        [[n] for n in range(60)],
    ),
}
ENGINES = {
    "sequential": lambda sinks: ab.run(*sinks, on="sequential"),
    "local": lambda sinks: ab.run(*sinks, on="local"),
    "local at degree 3": lambda sinks: ab.run(*sinks, on="local", degree=3),
    "Spark": lambda sinks: run_imitated(sinks, on="spark", degree=2, epoch_items=7),
}
CASES = [
    pytest.param(engine, name, marks=pytest.mark.long if number % every else ())
    for engine, every in zip(ENGINES, (1, 1, 3, 3), strict=True)
    for number, name in enumerate(PROGRAMS)
]


@pytest.mark.parametrize(("engine", "name"), CASES)
def test_an_item_stays_as_it_was_given(engine, name):
    make, expected = PROGRAMS[name]
    out = make().to_list()

    ENGINES[engine]([out])

    assert expected == out.items


def test_what_is_too_large_to_follow_may_change_what_it_gives(monkeypatch):
    monkeypatch.setattr(sys.modules["anabranch.python.interpret"], "_MOST_CALLS", 1)
    out = trades().scan(keep_all, []).to_list()

    ab.run(out, on="sequential")

    assert SO_FAR == out.items


def test_rounds_give_items_as_they_were():
    def body(numbers):
        return numbers.scan(keep_numbers, [])

    out = ab.from_iterable([1, 2, 3]).iterate(body, rounds=1).to_list()

    ab.run(out, on="local", degree=2)

    assert [[1], [1, 2], [1, 2, 3]] == out.items


def keep_numbers(state, number):
    state.append(number)
    return state, state


def test_a_consumer_that_changes_its_items_does_not_reach_the_state_behind_them():
    def mark(found):
        found["seen"] = True
        return found

    def count(state, trade):
        return state, state

    out = trades().scan(count, {"seen": False}).map(dict).map(mark).to_list()
    direct = trades().scan(count, {"seen": False})
    seen = direct.map(lambda found: found["seen"]).to_list()
    marked = direct.map(mark).to_list()

    ab.run(out, on="local")
    ab.run(seen, marked, on="sequential")

    assert [{"seen": True}] * 60 == out.items
    assert [False] * 60 == seen.items


@dataclass
class Total:
    symbol: str
    volume: int


class Totals(ab.Operator):
    def setup(self):
        self.volume = 0

    def process(self, trade):
        self.volume += trade.volume
        yield Total(trade.symbol, self.volume)


def add_to_copy(state, trade):
    return [*state, trade.volume], [*state, trade.volume]


def make_dicts():
    for n in range(3):
        yield {"n": n}


def make_totals():
    for n in range(3):
        yield Total("a", n)


def build_parts(trade):
    for part in trade:
        row = {}
        row["part"] = part
        row["symbol"] = trade.symbol
        yield row


def build_once(trade):
    row = {"symbol": trade.symbol}
    row["volume"] = trade.volume
    yield row


def list_parts(trade):
    rows = []
    for part in trade:
        rows.append([part])  # noqa: PERF401 - a loop is what is tried
    return rows


@pytest.mark.parametrize(
    "make",
    [
        lambda: trades().flat_map(build_parts),
        lambda: trades().flat_map(build_once),
        lambda: trades().flat_map(list_parts),
        lambda: trades().apply(Totals),
        lambda: trades().scan(add_to_copy, []),
        lambda: trades().scan(lambda total, trade: (total + 1, total), 0),
        lambda: ab.generate(make_dicts),
        lambda: ab.generate(make_totals),
    ],
)
def test_what_is_made_anew_is_not_copied(make):
    traits = ab.compile(make().to_list()).traits

    assert not any(one.copied for one in traits.values())


def test_explain_says_whose_outputs_are_copied():
    text = ab.compile(trades().scan(keep_all, [], name="keep").to_list()).explain()

    assert "keep: its outputs are copied" in text


class Slotted:
    __slots__ = ("values",)

    def __init__(self, values):
        self.values = values


@pytest.mark.parametrize(
    ("value", "change", "read"),
    [
        ([1, 2], lambda x: x.append(3), list),
        ([[1]], lambda x: x[0].append(3), lambda x: x[0][:]),
        ({"a": 1}, lambda x: x.clear(), dict),
        ({"a": {1}}, lambda x: x["a"].add(2), lambda x: {*x["a"]}),
        (("a", [1]), lambda x: x[1].clear(), lambda x: x[1][:]),
        (Total("a", 1), lambda x: setattr(x, "volume", 2), lambda x: x.volume),
        (Total("a", [1]), lambda x: x.volume.clear(), lambda x: x.volume[:]),  # type: ignore[arg-type]
        (Slotted([1]), lambda x: x.values.clear(), lambda x: x.values[:]),
        (bytearray(b"a"), lambda x: x.clear(), bytes),
        (np.zeros(2), lambda x: x.fill(1), lambda x: x.tolist()),
        (deque([1], maxlen=2), lambda x: x.extend([2, 3]), list),
    ],
)
def test_a_copy_does_not_follow_its_original(value, change, read):
    before = read(value)

    given = copy_output(value)
    change(value)

    assert before == read(given)
    assert type(value) is type(given)


@pytest.mark.parametrize("value", [1, "a", (1, "a"), Trade("a", 1), np.float64(1.5)])
def test_what_cannot_change_is_its_own_copy(value):
    assert value is copy_output(value)


def test_a_resource_is_given_as_it_is_and_what_is_beside_it_is_copied():
    row = {"n": [1], "lock": threading.Lock(), "log": sys.stderr}

    given = copy_output(row)
    row["n"].append(2)

    assert ([1], row["lock"], sys.stderr) == (given["n"], given["lock"], given["log"])


def test_what_is_known_by_its_identity_keeps_it():
    class Missing:
        pass

    missing, end = Missing(), object()

    assert missing is copy_output([missing, []])[0]
    assert end is copy_output([end, []])[0]


def test_a_loop_of_objects_is_copied_as_one():
    row = [1]
    row.append(row)

    given = copy_output(row)

    assert given is given[1]
    assert given is not row


class Link:
    def __init__(self, after):
        self.after = after


class SlottedLink:
    __slots__ = ("after",)

    def __init__(self, after):
        self.after = after


@pytest.mark.parametrize(
    "link", [Link, SlottedLink, lambda after: [after], lambda after: {0: after}]
)
def test_a_chain_of_any_length_is_copied(link):
    last = chain = link([1])
    for _ in range(5000):
        chain = link(chain)

    given = copy_output(chain)
    reach(last).append(2)

    for _ in range(5000):
        given = reach(given)
    assert [1] == reach(given)


def reach(link):
    return link.after if hasattr(link, "after") else link[0]


class OwnCopy:
    def __init__(self):
        self.values = [1]

    def __deepcopy__(self, memo):
        return self


def test_an_object_that_calls_itself_its_copy_is_copied():
    kept = OwnCopy()

    given = copy_output([kept])
    kept.values.append(2)

    assert [1] == given[0].values


@pytest.mark.parametrize("name", ["keys", "values", "items"])
def test_a_view_is_that_of_a_copy(name):
    table = {"a": 1}

    given = copy_output(getattr(table, name)())
    table["b"] = 2

    assert 1 == len(given)


class Uncopied:
    def __deepcopy__(self, memo):
        raise ValueError


@pytest.mark.parametrize("value", [(n for n in "ab"), Uncopied(), [[Uncopied()]]])
def test_what_cannot_be_copied_is_refused(value):
    with pytest.raises(OperatorError, match="give a new object each time"):
        copy_output(value)
