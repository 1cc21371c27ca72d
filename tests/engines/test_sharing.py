"""Effects are seen as one thread would see them, whoever writes and whoever reads.

Each case is a program whose parts share something; what it must give is computed by
hand, as a plain loop, and compared on every engine.
"""

from __future__ import annotations

import decimal
import functools
import linecache
import os
import random
import sys
import threading
import types
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest

import anabranch as ab

COUNT = 400
NUMBERS = list(range(COUNT))


class Shared:
    """What the parts of a program have in common; `reset` before each run."""

    rate = 1


TABLE = [0]
LOG: list[int] = []
DECK = list(range(10))
CONFIG = Shared()
LIMIT = 0
PRICES = list(range(10))  # nobody writes it
DRAWS = iter(())


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("ANABRANCH_SHARED", "0")


def reset():
    global LIMIT, DRAWS  # noqa: PLW0603 - that is what is tested
    TABLE[:] = [0]
    LOG.clear()
    DECK[:] = range(10)
    CONFIG.rate = Shared.rate = 1
    LIMIT = 0
    DRAWS = iter(range(100_000))
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - the one that all share


def read_table(n: int) -> int:
    return n + TABLE[0]


def write_table(n: int) -> int:
    TABLE[0] = n
    return n


def read_limit(n):
    return n + LIMIT


def write_limit(n):
    global LIMIT  # noqa: PLW0603 - that is what is tested
    LIMIT = n
    return n


def count_log(n):
    return len(LOG)


def triple(n: int) -> int:
    return n * 3


def generate_and_write():
    for n in NUMBERS:
        TABLE[0] = n * 2
        yield n


def generate_and_draw():
    for n in NUMBERS:
        yield n + random.random()


class WritesWhenRead:
    def __iter__(self):
        for n in NUMBERS:
            TABLE[0] = n * 2
            yield n


class GivesAnIterator:
    def __iter__(self):
        return WritingIterator()


class WritingIterator:
    def __init__(self):
        self.left = list(reversed(NUMBERS))

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        TABLE[0] = self.left[-1] * 2
        return self.left.pop()


class WritesAtTheEnd(ab.Operator):
    def process(self, n):
        return [n]

    def finish(self):
        TABLE[0] = 7
        return [-1]


class Writes(ab.Operator):
    def process(self, n):
        TABLE[0] = n
        return [n]


def fails_on_odd(n):
    if n % 2:
        raise ValueError(n)
    return len(LOG)


def numbers():
    return ab.from_iterable(NUMBERS, int)


def lagged(first):
    """Return what `read_table` gives if the table is written after it was read."""
    return [first, *(2 * n - 1 for n in NUMBERS[1:])]


class Case(NamedTuple):
    program: object
    expected: object
    options: Mapping[str, object] = types.MappingProxyType({})


def sink_behind():
    s = numbers()
    out = s.map(read_table).to_list()
    return out, s.for_each(write_table)


def sink_before():
    s = numbers()
    written = s.for_each(write_table)
    return s.map(read_table).to_list(), written


def generator():
    return (ab.generate(generate_and_write, int).map(read_table).to_list(),)


def iterable():
    return (ab.from_iterable(WritesWhenRead(), int).map(read_table).to_list(),)


def iterator():
    return (ab.from_iterable(GivesAnIterator(), int).map(read_table).to_list(),)


def behind_a_region():
    s = numbers().map(write_table).map(triple).map(lambda n: n + TABLE[0])
    return (s.to_list(),)


def beside_a_region():
    s = numbers()
    out = s.map(triple).map(read_table).to_list()
    return out, s.map(write_table).to_list()


def operator_and_window():
    s = numbers()
    out = s.window(count=4).aggregate(lambda window: sum(window) + TABLE[0]).to_list()
    return out, s.apply(Writes).to_list()


def punctuate():
    s = numbers().punctuate(lambda n: write_table(n) % 5 == 4)
    return (
        s.window(punctuation=True).aggregate(lambda w: len(w) + TABLE[0]).to_list(),
    )


def at_the_end():
    s = numbers().apply(WritesAtTheEnd)
    return (s.window(count=COUNT + 1).aggregate(lambda w: TABLE[0]).to_list(),)


def two_sources():
    a, b = numbers(), numbers()
    return a.map(read_limit).to_list(), b.map(write_limit).to_list()


def executed():
    def run(n):
        exec("LOG.append(n)", globals(), {"n": n})
        return n

    return (numbers().map(run).map(triple).map(count_log).to_list(),)


def by_globals():
    def run(n):
        globals()["LIMIT"] = n
        return n

    return (numbers().map(run).map(triple).map(read_limit).to_list(),)


def by_computed_name():
    def run(n):
        setattr(CONFIG, "ra" + "te", n)
        return n

    return (numbers().map(run).map(triple).map(lambda n: n * CONFIG.rate).to_list(),)


def by_computed_reading():
    def run(n):
        getattr(CONFIG, "lo" + "g").append(n)
        return n

    CONFIG.log = LOG
    return (numbers().map(run).map(triple).map(count_log).to_list(),)


def by_class():
    def run(n):
        Shared.rate = n
        return n

    s = numbers().map(run).map(triple).map(lambda n: n + Shared.rate)
    return (s.to_list(),)


def by_a_package():
    s = numbers()
    out = s.map(lambda n: DECK[0]).to_list()
    return out, s.for_each(lambda n: random.Random(n).shuffle(DECK))


def shuffled():
    deck, seen = list(range(10)), []
    for n in NUMBERS:
        seen.append(deck[0])
        random.Random(n).shuffle(deck)
    return seen


def by_a_thread():
    def run(n):
        thread = threading.Thread(target=LOG.append, args=(n,))
        thread.start()
        thread.join()
        return n

    return (numbers().map(run).map(triple).map(count_log).to_list(),)


def by_a_partial():
    s = numbers()
    return s.map(count_log).to_list(), s.for_each(LOG.append)


def by_an_iterator():
    s = numbers()
    left, right = s.map(lambda n: next(DRAWS)), s.map(triple).map(lambda n: next(DRAWS))
    return left.to_list(), right.to_list()


def by_random_numbers():
    s = ab.generate(generate_and_draw)
    return (s.map(lambda n: n + random.random()).to_list(),)


def drawn():
    draw = random.Random(5)
    return [n + draw.random() + draw.random() for n in NUMBERS]


def by_a_cell():
    count = 0

    def up(n):
        nonlocal count
        count += 1
        return n

    return (numbers().map(up).map(triple).map(lambda n: count).to_list(),)


VIEWED = np.zeros(4)
VIEW = VIEWED[:2]


def by_a_view():
    def write(n):
        VIEW[0] = n
        return n

    VIEWED[:] = 0
    s = numbers().map(write).map(triple).map(lambda n: n + int(VIEWED[0]))
    return (s.to_list(),)


@ab.declare(state="global")
def declared_reader(n):
    return n + TABLE[0]


def by_declaration():
    s = numbers()
    return s.map(declared_reader).to_list(), s.for_each(write_table)


def neighbours():
    s = numbers().map(triple).map(write_table).map(read_table).map(triple)
    return (s.to_list(),)


def by_the_environment():
    def write(n):
        os.environ["ANABRANCH_SHARED"] = str(n)
        return n

    s = numbers().map(write).map(triple)
    return (s.map(lambda n: n + int(os.environ["ANABRANCH_SHARED"])).to_list(),)


def two_sinks():
    s = numbers()
    return s.for_each(LOG.append), s.map(triple).for_each(LOG.append)


def by_its_dictionary():
    def write(n):
        CONFIG.__dict__["rate"] = n
        return n

    s = numbers().map(write).map(triple).map(lambda n: n + CONFIG.rate)
    return (s.to_list(),)


def by_the_table_of_modules():
    def write(n):
        sys.modules[__name__].LIMIT = n
        return n

    return (numbers().map(write).map(triple).map(read_limit).to_list(),)


def by_a_transposed_array():
    def write(n):
        VIEWED.T[0] = n
        return n

    VIEWED[:] = 0
    s = numbers().map(write).map(triple).map(lambda n: n + int(VIEWED[0]))
    return (s.to_list(),)


ENTRIES: dict[int, int] = {}
LENGTHS = ENTRIES.values()


def by_a_view_of_a_dictionary():
    def write(n):
        ENTRIES[n] = 1
        return n

    ENTRIES.clear()
    return (numbers().map(write).map(triple).map(lambda n: sum(LENGTHS)).to_list(),)


def by_a_cached_result():
    @functools.cache
    def remembered():
        return [0]

    def write(n):
        remembered()[0] = n
        return n

    s = numbers().map(write).map(triple).map(lambda n: n + remembered()[0])
    return (s.to_list(),)


def by_settings():
    def write(n):
        decimal.getcontext().prec = n % 3 + 1
        return n

    s = numbers().map(write).map(triple).map(lambda n: str(decimal.Decimal(1) / 3))
    return (s.to_list(),)


def failing():
    return (numbers().map(fails_on_odd).to_list(),)


def by_a_split():
    first, second = (
        numbers().map(write_table).split(lambda n: (n + TABLE[0]) % 4 // 2, 2)
    )
    return first.to_list(), second.map(triple).to_list()


def work_list():
    todo = [1]

    def follow(n):
        todo.extend(m for m in (2 * n, 2 * n + 1) if m < COUNT)
        return n

    return (ab.from_iterable(todo, int).map(follow).to_list(),)


def list_that_a_sink_extends():
    todo, seen = [0], ab.from_iterable([0], int).to_list()

    def follow(n):
        if n + 1 < COUNT:
            todo.append(n + 1)

    stream = ab.from_iterable(todo, int)
    return stream.to_list(), stream.for_each(follow), seen


def view_that_grows():
    table = {0: 0}

    def follow(n):
        if n + 1 < COUNT:
            table[0] = table[0] + 1
        return table[0]

    return (ab.from_iterable(table.values(), int).map(follow).to_list(),)


def array_ahead():
    rows = np.zeros(COUNT, int)

    def follow(n):
        rows[min(int(n) + 1, COUNT - 1)] = int(n) + 1
        return int(n)

    return (ab.from_iterable(rows).map(follow).to_list(),)


CASES = {
    "a list that grows": Case(work_list, lambda: [[*range(1, COUNT)]]),
    "a list that a sink extends": Case(
        list_that_a_sink_extends, lambda: [NUMBERS, None, [0]]
    ),
    "a view of a dictionary as source": Case(view_that_grows, lambda: [[1]]),
    "an array whose rows ahead change": Case(array_ahead, lambda: [NUMBERS]),
    "a sink behind": Case(sink_behind, lambda: [lagged(0), None]),
    "a sink before": Case(sink_before, lambda: [[2 * n for n in NUMBERS], None]),
    "a generator": Case(generator, lambda: [[3 * n for n in NUMBERS]]),
    "an iterable": Case(iterable, lambda: [[3 * n for n in NUMBERS]]),
    "an iterator of its own": Case(iterator, lambda: [[3 * n for n in NUMBERS]]),
    "behind a region": Case(behind_a_region, lambda: [[4 * n for n in NUMBERS]]),
    "beside a region": Case(
        beside_a_region, lambda: [[0, *(4 * n - 1 for n in NUMBERS[1:])], NUMBERS]
    ),
    "an Operator and a window": Case(
        operator_and_window,
        lambda: [
            [sum(NUMBERS[i : i + 4]) + i + 2 for i in range(0, COUNT, 4)],
            NUMBERS,
        ],
    ),
    "when to punctuate": Case(punctuate, lambda: [[5 + n for n in NUMBERS[4::5]]]),
    "the end of the stream": Case(at_the_end, lambda: [[7]]),
    "two sources": Case(
        two_sources, lambda: [[0, *(2 * n - 1 for n in NUMBERS[1:])], NUMBERS]
    ),
    "exec": Case(executed, lambda: [[n + 1 for n in NUMBERS]]),
    "globals()": Case(by_globals, lambda: [[4 * n for n in NUMBERS]]),
    "a computed name": Case(by_computed_name, lambda: [[3 * n * n for n in NUMBERS]]),
    "a computed reading": Case(by_computed_reading, lambda: [[n + 1 for n in NUMBERS]]),
    "an attribute of a class": Case(by_class, lambda: [[4 * n for n in NUMBERS]]),
    "a function of a package": Case(by_a_package, lambda: [shuffled(), None]),
    "a thread": Case(by_a_thread, lambda: [[n + 1 for n in NUMBERS]]),
    "a bound method": Case(by_a_partial, lambda: [NUMBERS, None]),
    "an iterator": Case(
        by_an_iterator, lambda: [[2 * n for n in NUMBERS], [2 * n + 1 for n in NUMBERS]]
    ),
    "random numbers": Case(by_random_numbers, lambda: [drawn()]),
    "a captured variable": Case(by_a_cell, lambda: [[n + 1 for n in NUMBERS]]),
    "a view of an array": Case(by_a_view, lambda: [[4 * n for n in NUMBERS]]),
    "its dictionary": Case(by_its_dictionary, lambda: [[4 * n for n in NUMBERS]]),
    "the table of modules": Case(
        by_the_table_of_modules, lambda: [[4 * n for n in NUMBERS]]
    ),
    "an array that is transposed": Case(
        by_a_transposed_array, lambda: [[4 * n for n in NUMBERS]]
    ),
    "a view of a dictionary": Case(
        by_a_view_of_a_dictionary, lambda: [[n + 1 for n in NUMBERS]]
    ),
    "a cached result": Case(by_a_cached_result, lambda: [[4 * n for n in NUMBERS]]),
    "settings": Case(
        by_settings, lambda: [["0." + "3" * (n % 3 + 1) for n in NUMBERS]]
    ),
    "what is declared": Case(by_declaration, lambda: [lagged(0), None]),
    "neighbours": Case(neighbours, lambda: [[18 * n for n in NUMBERS]]),
    "the environment": Case(by_the_environment, lambda: [[4 * n for n in NUMBERS]]),
    "dead letters": Case(
        failing,
        lambda: [[n // 2 for n in NUMBERS if n % 2 == 0]],
        {"on_error": ab.dead_letter(lambda failure: LOG.append(failure.item))},
    ),
    "dead letters to a bound method": Case(
        failing,
        lambda: [[n // 2 for n in NUMBERS if n % 2 == 0]],
        {"on_error": ab.dead_letter(LOG.append)},
    ),
    "which way to go": Case(
        by_a_split,
        lambda: [
            [n for n in NUMBERS if n % 2 == 0],
            [3 * n for n in NUMBERS if n % 2],
        ],
    ),
}
ENGINES = {
    "sequential": ("sequential", {}),
    "local 1": ("local", {"degree": 1}),
    "local 3": ("local", {"degree": 3}),
}


def results(case, on, options):
    reset()
    sinks = case.program()
    with decimal.localcontext():
        ab.run(*sinks, on=on, **case.options, **options)
    return [getattr(sink, "items", None) for sink in sinks]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_changes_are_seen_item_by_item(case, engine):
    on, options = engine

    assert case.expected() == results(case, on, options)


ON_SPARK = (
    "a list that grows",
    "a sink behind",
    "neighbours",
    "a generator",
    "behind a region",
    "dead letters",
    "exec",
)


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_changes_are_seen_item_by_item_on_spark(name):
    found = results(CASES[name], "spark", {"degree": 2, "epoch_items": 50})

    assert CASES[name].expected() == found


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_two_sinks_fill_one_list_as_one_thread_would(engine):
    on, options = engine
    reset()

    ab.run(*two_sinks(), on=on, **options)

    assert [each for n in NUMBERS for each in (n, 3 * n)] == LOG


def generate_and_count():
    for n in NUMBERS:
        LOG.append(n)
        yield n + random.random()


@pytest.mark.spark
def test_a_generator_with_effects_runs_once_in_this_process():
    reset()
    out = ab.generate(generate_and_count, float).map(int).to_list()
    drawn = ab.generate(generate_and_count, float).to_list()

    ab.run(out, degree=2, epoch_items=50)
    assert (NUMBERS, NUMBERS) == (out.items, LOG)

    reset()
    ab.run(drawn, degree=2, epoch_items=50)
    draw = random.Random(5)
    assert [n + draw.random() for n in NUMBERS] == drawn.items


CELLS = {
    "<cell 1>": """
import anabranch as ab
LIMIT = 0
def set_limit(n):
    global LIMIT
    LIMIT = n
    return n
""",
    "<cell 2>": """
def triple(n: int) -> int:
    return n * 3
def use_limit(n):
    return n + LIMIT
""",
}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_cells_of_a_notebook_see_what_another_one_changes(engine, monkeypatch):
    notebook = types.ModuleType("__main__")
    for name, text in CELLS.items():
        lines = text.splitlines(keepends=True)
        monkeypatch.setitem(linecache.cache, name, (len(text), None, lines, name))
        exec(compile(text, name, "exec"), vars(notebook))
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    stream = ab.from_iterable(NUMBERS).map(notebook.set_limit).map(notebook.triple)
    out = stream.map(notebook.use_limit).to_list()
    on, options = engine

    ab.run(out, on=on, **options)

    assert [4 * n for n in NUMBERS] == out.items


def test_what_two_parts_only_read_is_no_reason():
    s = numbers()
    both = s.map(lambda n: PRICES[n % 10], name="a").map(
        lambda n: len(PRICES), name="b"
    )
    plan = ab.compile(both.to_list(), on="local").plan

    assert ("", ()) == (plan.one_thread, plan.together)
    assert [("a", "b")] == [r.operators for r in plan.regions]


def test_what_one_part_alone_changes_is_no_reason():
    s = numbers()
    plan = ab.compile(s.map(triple).to_list(), s.for_each(LOG.append), on="local").plan

    assert "" == plan.one_thread
    assert ("map",) in [region.operators for region in plan.regions]


def test_neighbours_that_share_something_stay_together():
    s = numbers().map(triple, name="triple").map(write_table, name="write")
    made = ab.compile(s.filter(read_table, name="read").to_list(), on="local")

    assert (("read", "write"),) == made.plan.together
    assert "" == made.plan.one_thread
    assert "triple" in made.plan.regions[0].operators


def test_no_thread_comes_between_those_who_share_something():
    s = numbers().map(write_table, name="write").map(read_table, name="read")
    out = s.to_list()
    job = ab.start(out, on="local", degree=1)
    with pytest.raises(ValueError, match="nothing may come between"):
        job._running.insert_port("read")
    job.wait()

    assert [2 * n for n in NUMBERS] == out.items


def test_the_explanation_says_who_shares_what():
    text = " ".join(ab.explain(*sink_behind()).split())

    assert (
        "The whole program runs as one thread: map reads TABLE, which "
        "for_each may change; for_each is written behind."
    ) in text


def test_a_checkpoint_of_one_thread_is_refused(tmp_path):
    with pytest.raises(ab.errors.PlanError, match="must run as one thread"):
        ab.run(*sink_behind(), checkpoint=tmp_path)


class Price:
    def __init__(self, cents):
        self.cents = cents


def lower(price):
    price.cents -= 1
    return price.cents


@pytest.mark.parametrize(
    "on", ["sequential", "local", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_an_item_that_one_branch_changes_is_changed_for_the_next(on):
    prices = ab.from_iterable([Price(cents) for cents in range(10, 50)])
    lowered = prices.map(lower, name="lower").to_list()
    shown = prices.map(lambda price: price.cents, name="show").to_list()

    ab.run(lowered, shown, on=on, verify="off")

    assert list(range(9, 49)) == lowered.items
    assert list(range(9, 49)) == shown.items
