"""What of Python becomes kernels: each gives what Python gives, or leaves it to Python."""

from __future__ import annotations

import datetime as dt
import math
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.compiler.columns.choose_columns import find_columns
from anabranch.errors import OperatorError
from anabranch.graph.kind import Traits
from anabranch.language.drafts import build_graph
from anabranch.runtime.columns import chain as chains
from anabranch.runtime.columns.column import UnfitError
from anabranch.runtime.program import Program
from tests.compiler.columns.test_fuzz import exactly, interpret

PRICES = {"a": 1.5, "b": 2.5}
BY_NUMBER = {1: "one", 2: "two"}
WEIGHTS = [0.5, 0.25, 4.0]


class Side(Enum):
    BUY = "B"
    SELL = "S"


SIDES = {"a": Side.BUY, "b": Side.SELL}
SIDES_OF = (Side.BUY, Side.SELL)
ZEROS, MINUS_ZEROS = {"a": 0.0}, {"a": -0.0}
FLAGS, COUNTS, RATIOS = {"a": True}, {"a": 1}, {"a": 1.0}  # equal, of three types


class Row(NamedTuple):
    i: int
    f: float
    s: str


LIMITS = {"a": (0.5, 2), "b": (-3.0, 1)}
LIMITS_OF = [(1, "x"), (2, "y")]
POINTS = {"a": Row(3, 1.0, "p"), "b": Row(4, -0.0, "q"), "z": Row(5, 0.0, "")}


def raises_with_a_text(t):
    if t.i < 0:
        msg = f"{t.i} of {t!r} is negative"
        raise ValueError(msg)
    return t.i


def raises_an_error_without_a_text(t):
    if t.i >= 0:
        return t.f
    raise AssertionError


def raises_before_another(t):
    if t.i == 2:
        raise KeyError(t.s)
    if t.i == -3:
        raise ValueError(t.i, t.f)
    return t.s


def is_in_a_set(t):
    return t.s in {"a", "c"} or t.i in {1, 2}


def is_in_a_range(t):
    return t.i in range(-3, 8, 2), t.i in range(5, 0, -2), t.i not in range(3)


def is_among_floats(t):
    return t.f in (1.5, 2, -0.0)


def breaks_out_of_a_list(t):
    found = -1.0
    for weight in WEIGHTS:
        if weight * t.i > t.f:
            found = weight
            break
    return found


def skips_parts_of_a_tuple(t):
    total = 0
    for one in (t.i, 3, t.i * 2):
        if one % 2:
            continue
        total += one
    return total


def breaks_or_not(t):
    found = 0
    for divisor in range(2, 6):
        if t.i % divisor == 0:
            found = divisor
            break
    else:
        found = t.i * 100
    return found


def breaks_inside(t):
    n = t.i
    while n < 50:
        for k in (1, 2):
            if n % 7 == k:
                break
        else:
            n += 1
        n += 3
        if n == 40:
            break
    else:
        return n
    return -n


def looks_up_or_none(t):
    return PRICES.get(t.s)


def looks_up_or_a_number(t):
    return PRICES.get(t.s, t.i)


def looks_up_a_number(t):
    return BY_NUMBER.get(t.i, t.s), BY_NUMBER.get(t.i)


def compares_tuples(t):
    one, two = (t.i, t.s, t.f), (2, "b", 1.5)
    return one == two, one != two, one < two, one >= two, (t.i,) < (t.i, 1)


def compares_records(t):
    return t == Row(1, 1.5, "a"), t > (1, 1.5)


def takes_a_logarithm(t):
    return math.log(t.f, 3)


def takes_a_divisor(t):
    return math.gcd(t.i, 12)


def goes_backwards(t):
    x = 0.0
    for weight in reversed(WEIGHTS):
        x = x * t.f + weight
    return x


def swaps_in_a_loop(t):
    one, two = t.i, 5
    for _ in range(3):
        one, two = two, one
    return one, two


def keeps_what_came_before(t):
    now = previous = t.i % 5
    while now < 30:
        previous = now
        now = now * 2 + 1
    return previous, now


def passes_names_on_in_a_loop(t):
    one, old, two, x = t.i, 0, t.s, t.f
    for n in (1, 2, 3, 4):
        one, old, two, x = n * 10, one, "b" if two == t.s else t.s, -x
        if x == 2.0:
            break
    return old, one, two, x


def extends_a_list_that_has_two_names(t):
    one = [t.i]
    two = one
    one += (t.i, 7)
    two.append(8)
    return len(one), sum(two)


def forgets_a_name(t):
    x = t.i
    y = x + 1
    del x
    return y


def divides_in_several_handlers(t):
    try:
        try:
            found = 7 // t.i
        except (ValueError, ZeroDivisionError):
            found = -1
    except ZeroDivisionError:
        found = -2
    return found


def names_the_error_of_an_inner_handler(t):
    try:
        try:
            found = 7 // t.i
        except ZeroDivisionError as error:
            found = len(str(error))
    except ArithmeticError:
        found = -2
    return found


def looks_up_members(t):
    return SIDES.get(t.s), SIDES.get(t.s, Side.SELL), SIDES.get(t.s) == Side.BUY


def looks_up_a_member(t):
    return SIDES[t.s if t.s != "z" else "a"], SIDES_OF[t.i % 2].value


def divides_in_a_loop_that_may_not_run(t):
    if t.i > 3:
        found = any(k / 0 > 1 for k in range(t.i - 40))
    else:
        found = PRICES.get("z", t.f) == t.f
    return found, PRICES.get("a", t.f)


def keeps_some_of_a_list(t):
    return len([n for n in (t.i, 3) if n > 0])


def adds_to_a_list_in_a_loop(t):
    made = []
    same = made
    for n in range(t.i % 20):
        made.append(n * t.f)
        if n > 16:
            same.append(-0.0)
    made += [t.f]
    made.extend([1.5, t.f])
    return len(same), made[0], made[-1], bool(made), same is None


def adds_several_types_to_a_list(t):
    made = [None]
    for n in range(3):
        if n == t.i:
            made.append(t.f)
        made.append(n)
        made.append((t.s, n)[1])
    return made[1], made[-1], len(made), made[0] is None


def adds_in_a_while_and_a_try(t):
    left, bits = t.i, []
    try:
        while left > 0:
            bits.append(left % 2)
            left //= 2
        bits.append(10 // (t.i - 2))
    except ZeroDivisionError:
        bits.append(-1)
    return sum(bits), len(bits), [bit for bit in bits if bit][-1]


def makes_a_list_in_each_round(t):
    total = 0
    for n in range(4):
        inner = [t.i]
        for k in range(n):
            inner.append(k)  # noqa: PERF402 - on purpose
        total += sum(inner) * len(inner)
    return total


def sorts_values(t):
    values = [0.0, -0.0, t.i + 0.5, 3.5, -1.0]
    falling = sorted(values, reverse=True)
    words = sorted([t.s, "b", ""])
    return sorted(values)[1], sorted(values)[4], falling[2], falling[3], words[1]


def reverses_and_cuts(t):
    values = [n * t.i for n in range(5)]
    last = 0
    for n, one in enumerate(reversed(values), 1):
        last = last * 3 + n * one
    pairs = sum(b - a for a, b in zip(values, values[2:], strict=False))
    return (
        last,
        pairs,
        values[-2:][0],
        values[::-1][0],
        len(values[3:9]),
        values[:-4][0],
    )


def has_a_start_or_a_default(t):
    some = [n for n in range(t.i % 5) if n > 1]
    return max(some, default=-1), sum(some, 7), sum([t.f], 0.5), min(some, default=9)


def splits_a_string(t):
    words = f"{t.s}/b-c/d".split("/")
    first, last = t.s.rpartition("a")[0], words[-1]
    head, _, tail = f"x{t.s}".partition("z")
    count = len(words) + len(t.s.split("a", maxsplit=1))
    return words[0], first, last, head, tail, count, ".".join(words[:2]), "b-c" in words


def takes_a_part_of_a_string(t):
    if t.s.split("b")[1:]:
        return t.s.split("b")[1]
    return t.s.splitlines()[0].upper()


def looks_up_tuples(t):
    low, high = LIMITS[t.s if t.s != "z" else "b"]
    return low <= t.f < high, LIMITS_OF[t.i % 2], POINTS["a" if t.i > 0 else t.s].i


def has_tables_of_its_own(t):
    return {1: "one", 7: "seven"}.get(t.i, "other"), {"a": (1, 2.5)}["a"][1]


def starts_with_one_of_several(t):
    return t.s.startswith(("a", "b")), isinstance(t.i, (int, str)), t.s.endswith(())


def takes_the_best_of_ints_and_floats(t):
    return max(0, min(t.f, 100)), min(t.i, t.f), max(t.f, 2, t.i), max(0, t.f) < 2


def counts_from_a_number(t):
    found = 0
    for n, one in enumerate((t.i, 3), 4):
        found += n * one
    for n, one in enumerate((t.i, 3), start=-1):
        found = found * 2 + n * one
    return found, sum(price for _, price in PRICES.items())


def looks_up_signed_zeros(t):
    return ZEROS.get(t.s, 1.0), MINUS_ZEROS.get(t.s, 1.0), ZEROS.get(t.s, -0.0)


def looks_up_flags(t):
    return FLAGS.get(t.s, True), COUNTS.get(t.s, 1), RATIOS.get(t.s, 1.0)


def computes_with_flags(t):
    flag = t.i > 1
    return float(flag), flag / 2, flag * t.f, flag < t.f, flag**2, sum([flag, flag])


FUNCTIONS = [value for value in list(vars().values()) if type(value) is type(exactly)]
FUNCTIONS = [f for f in FUNCTIONS if f.__module__ == __name__]
ITEMS = [
    Row(i, f, s)
    for i in (-3, 0, 1, 2, 7, 40)
    for f in (-2.5, -0.0, 1.5, 2.0, math.nan, math.inf)
    for s in ("a", "b", "z")
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_kernel_gives_what_python_gives(function, monkeypatch):
    monkeypatch.setattr(chains, "compile_columns", interpret)
    stream = ab.from_iterable([], Row).map(function, name="op")
    graph = build_graph([stream.to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    found = find_columns(graph, known)[-1]
    assert found.kernel is not None, found.why
    chain = chains.ColumnChain([graph["op"]], {"op": found.kernel}, {})

    in_columns = 0
    for item in ITEMS:
        try:
            (actual,) = chain.run(chain.of_items([item])).items()
        except UnfitError:
            continue  # which Python runs
        in_columns += 1
        assert exactly(function(item)) == exactly(actual), item

    assert in_columns >= len(ITEMS) // 2


@pytest.mark.parametrize(
    "function",
    [raises_with_a_text, raises_an_error_without_a_text, raises_before_another],
)
def test_a_kernel_gives_up_where_python_raises(function, monkeypatch):
    monkeypatch.setattr(chains, "compile_columns", interpret)
    stream = ab.from_iterable([], Row).map(function, name="op")
    graph = build_graph([stream.to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    kernel = find_columns(graph, known)[-1].kernel
    chain = chains.ColumnChain([graph["op"]], {"op": kernel}, {})

    with pytest.raises(UnfitError):
        chain.run(chain.of_items([Row(-3, 1.0, "a")]))


def append_to(values, value):
    values.append(value)
    return value


def grows_in_another_function(t):
    values = [t.i]
    return append_to(values, 1) + len(values)


def grows_while_it_is_read(t):
    values = [t.i, 1]
    for value in values:
        if len(values) < 5:
            values.append(value)
    return len(values)


def grows_while_it_is_counted(t):
    values = [t.i, 1]
    for n, _ in enumerate(values):
        if n < 5:
            values += [n]
    return len(values)


def grows_before_it_is_read(t):
    values = [t.i]
    parts = iter(values)
    values.append(1)
    return sum(parts)


def joins_a_tuple_and_a_list(t):
    return len((t.i,) + [1])


def forgets_in_a_loop(t):
    x = t.i
    for n in range(t.i):
        if n == 3:
            del x
    return x


@pytest.mark.parametrize(
    "function",
    [
        grows_in_another_function,
        grows_while_it_is_read,
        grows_while_it_is_counted,
        grows_before_it_is_read,
        joins_a_tuple_and_a_list,
        forgets_in_a_loop,
    ],
)
def test_what_changes_elsewhere_is_left_to_python(function):
    graph = build_graph([ab.from_iterable([], Row).map(function).to_list()])

    (found,) = find_columns(graph, {op.name: Traits("stateless") for op in graph})

    assert found.kernel is None


def reads_what_is_not_there(t):
    return t.price is None


def reads_a_member_that_is_not_there(t):
    return t.i, Side.HOLD is None


def reads_a_method_that_is_not_there(t):
    return t.s.shout is None


def reads_a_constant_that_is_not_there(t):
    return t.i, dt.datetime.min.zone is None  # noqa: DTZ901


def zips_strictly(t):
    values = [n * t.f for n in range(t.i + 3)]
    return sum(a * b for a, b in zip(values, values[2:], strict=True))


def divides_by_nothing_in_a_generator(t):
    zero = int(WEIGHTS[0] > 1)
    if t.i > 0:
        return sum(k / zero for k in (t.f, 1.5))
    return 1.0


def divides_by_nothing_in_a_loop_of_a_generator(t):
    if t.i > 0:
        return any(k / 0 > 1 for k in range(t.i))
    return True


def goes_through_pairs_twice(t):
    pairs, count = zip((1, 2), (t.i, 4), strict=True), 0
    for one, _ in pairs:
        count += one
    for one, _ in pairs:
        count += 10 * one
    return count


def goes_on_in_an_iterator(t):
    values = iter((t.i, 2))
    return sum(values) * 10 + sum(values)


def asks_for_the_length_of_pairs(t):
    return len(zip((1, 2), (t.i, 4), strict=True))


def takes_an_element_of_what_is_reversed(t):
    return reversed((t.i, 2))[0]


def compares_the_keys_of_a_table(t):
    return t.i, PRICES.keys() == ("a", "b")


def names_a_part_twice(t):
    return dt.timedelta(1, days=t.i)


def makes_a_range_of_a_float(t):
    rounds = range(t.f)
    return t.i, rounds is None


def looks_for_a_member_in_a_string(t):
    return Side.BUY in t.s


def goes_very_far(t):
    count = t.i
    for n in range(-9, (1 << 62) + t.i):
        count += n
        if n > 3:
            break
    return count


@pytest.mark.parametrize(
    "function",
    [
        reads_what_is_not_there,
        reads_a_member_that_is_not_there,
        reads_a_method_that_is_not_there,
        reads_a_constant_that_is_not_there,
        zips_strictly,
        divides_by_nothing_in_a_generator,
        divides_by_nothing_in_a_loop_of_a_generator,
        goes_through_pairs_twice,
        goes_on_in_an_iterator,
        asks_for_the_length_of_pairs,
        takes_an_element_of_what_is_reversed,
        compares_the_keys_of_a_table,
        names_a_part_twice,
        makes_a_range_of_a_float,
        looks_for_a_member_in_a_string,
        goes_very_far,
    ],
)
def test_what_fails_or_goes_too_far_is_left_to_python(function, monkeypatch):
    monkeypatch.setattr(chains, "compile_columns", interpret)
    graph = build_graph([ab.from_iterable([], Row).map(function, name="op").to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    kernel = find_columns(graph, known)[-1].kernel
    if kernel is None:
        return
    chain = chains.ColumnChain([graph["op"]], {"op": kernel}, {})

    with pytest.raises(UnfitError):
        chain.run(chain.of_items([Row(2, 1.0, "a")]))


def makes_a_set_of_items(t):
    return t.i in {t.i + 1, 2}


def test_a_set_of_what_is_not_known_is_refused_with_its_line():
    graph = build_graph([ab.from_iterable([], Row).map(makes_a_set_of_items).to_list()])
    known = {op.name: Traits("stateless") for op in graph}

    found = find_columns(graph, known)[-1]

    line = makes_a_set_of_items.__code__.co_firstlineno + 1
    assert "has a set of values that are not known" in found.why
    assert f"test_python.py:{line}" in found.why


def takes_the_latest(rows):
    return max(rows, key=lambda row: row.i)


def takes_the_least_by_two(rows):
    return min(rows, key=lambda row: (-row.i, row.s)).f


def takes_by_a_string(rows):
    return max(rows, key=lambda row: row.s if row.i > 0 else "b").i


def takes_by_a_price(rows):
    return max(rows, key=lambda row: (PRICES.get(row.s), row.i))


def open_window(function, count):
    """Return the chain of a function of so many items."""
    stream = (
        ab.from_iterable([], Row).window(count=count).aggregate(function, name="op")
    )
    graph = build_graph([stream.to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    found = find_columns(graph, known)[-1]
    assert found.kernel is not None, found.why
    program = Program(graph, ["op"], graph.out_edges(graph.sources[0].name))
    return chains.ColumnChain([graph["op"]], {"op": found.kernel}, program.states)


@pytest.mark.parametrize(
    "function",
    [takes_the_latest, takes_the_least_by_two, takes_by_a_string, takes_by_a_price],
)
def test_the_best_item_of_a_window_is_found_by_a_key(function, monkeypatch):
    monkeypatch.setattr(chains, "compile_columns", interpret)
    chain = open_window(function, 7)
    items = [item for item in ITEMS if item.f == item.f and item.s in PRICES]
    windows = [items[n : n + 7] for n in range(0, len(items) // 7 * 7, 7)]

    made = chain.run(chain.of_items(items)).items()

    assert list(map(function, windows)) == made


def adds_gains(rows):
    gains, before = [], None
    for row in rows:
        if before is not None and row.f > before:
            gains.append(row.f - before)
        before = row.f
    return sum(gains) / len(gains) if gains else -1.0


def takes_the_median(rows):
    values = sorted(row.f for row in rows)
    middle = len(values) // 2
    return (values[middle - 1] + values[middle]) / 2, values[0]


def takes_the_best_by_keys(rows):
    best = sorted(rows, key=lambda row: (row.s, -row.i))
    falling = sorted(rows, key=lambda row: row.f, reverse=True)
    pairs = sorted((row.s, row.f) for row in rows)
    return best[1].i, [row.f for row in best][3], falling[0].s, falling[1].s, pairs[2]


def compares_neighbours(rows):
    steps = [b.f - a.f for a, b in pairwise(rows)]
    steps += [b.f - a.f for a, b in zip(rows, rows[3:], strict=False)]
    return max(steps), len(steps), sum(row.i for row in rows[-3:])


def describes_prices(rows):
    values = [row.f for row in rows]
    return values[0], max(values), min(values), values[-1], [row.s for row in rows][-1]


def weighs_by_number(rows):
    return sum(n * row.f for n, row in enumerate(rows, 1))


def goes_back(rows):
    value = 0.0
    for row in reversed(rows):
        value = 0.5 * value + row.f
    return value


@pytest.mark.parametrize(
    "function",
    [
        adds_gains,
        takes_the_median,
        takes_the_best_by_keys,
        compares_neighbours,
        describes_prices,
        weighs_by_number,
        goes_back,
    ],
)
def test_lists_of_a_window_are_what_they_are_in_python(function, monkeypatch):
    monkeypatch.setattr(chains, "compile_columns", interpret)
    chain = open_window(function, 40)
    items = [row for row in ITEMS if row.f == row.f]

    made = chain.run(chain.of_items(items)).items()

    assert exactly([function(items[:40]), function(items[40:80])]) == exactly(made)


def adds_in_rounds_of_items(rows):
    return sum(0.5 for row in rows for _ in range(row.i))


def takes_the_least_in_rounds_of_items(rows):
    return min(n for row in rows for n in range(row.i))


@pytest.mark.parametrize(
    "function", [adds_in_rounds_of_items, takes_the_least_in_rounds_of_items]
)
def test_what_may_go_through_nothing_is_left_to_python(function, monkeypatch):
    """The sum of nothing is an integer."""
    monkeypatch.setattr(chains, "compile_columns", interpret)
    stream = ab.from_iterable([], Row).window(count=2).aggregate(function, name="op")
    graph = build_graph([stream.to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    kernel = find_columns(graph, known)[-1].kernel
    assert kernel is not None
    program = Program(graph, ["op"], graph.out_edges(graph.sources[0].name))
    chain = chains.ColumnChain([graph["op"]], {"op": kernel}, program.states)
    some, none = [Row(2, 1.0, "a")] * 2, [Row(0, 1.0, "a")] * 2

    assert [function(some)] == chain.run(chain.of_items(some)).items()
    with pytest.raises(UnfitError):
        chain.run(chain.of_items(none))


class Event(NamedTuple):
    at: dt.datetime
    day: dt.date
    n: int


@pytest.mark.parametrize("on", ["at", "day"])
def test_windows_outside_the_calendar_are_left_to_python(on, monkeypatch):
    """Python refuses them even where nothing reads their bounds."""
    monkeypatch.setattr(chains, "compile_columns", interpret)
    stream = ab.from_iterable([], Event)
    stream = stream.window(time="3 d", every="2 d", on=on, late="current")
    graph = build_graph([stream.aggregate(total=ab.sum("n"), name="op").to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    kernel = find_columns(graph, known)[-1].kernel
    assert kernel is not None
    program = Program(graph, ["op"], graph.out_edges(graph.sources[0].name))
    chain = chains.ColumnChain([graph["op"]], {"op": kernel}, program.states)
    first = dt.datetime.min  # noqa: DTZ901 - without a zone
    days = [first, first + dt.timedelta(days=9)]
    items = [Event(day, day.date(), 1) for day in days]

    with pytest.raises(OperatorError, match="OverflowError"):
        program.run(items)
    program.states["op"].clear()
    with pytest.raises(UnfitError):
        chain.run(chain.of_items(items))
