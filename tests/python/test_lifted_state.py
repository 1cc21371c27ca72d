"""Which states are lifted out of globals and outer variables, and which are not."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from enum import Enum

import pytest

import anabranch as ab

highest = 0.0
WINDOW: deque[int] = deque(maxlen=3)
ALIASED: list[int] = []
HOLDER = {"it": ALIASED}
SHARED: list[int] = []


class Tally:
    def __init__(self):
        self.n = 0
        self.of = {}


class Picky:
    def __init__(self):
        self.n = 0

    def __reduce__(self):
        raise TypeError("stays here")  # noqa: EM101, TRY003


class Ticket:
    count = 0


class Colour(Enum):
    RED = 1


class Cell:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        SEEN.append(1)
        return len(SEEN) % 2 == 0

    def __hash__(self):
        return 1


TALLY = Tally()
PICKY = Picky()
RED = Colour.RED
LOGGER = logging.getLogger(__name__)
SEEN: list[int] = []
CELLS = {Cell(1): 1, Cell(2): 2}


def record(price):
    global highest  # noqa: PLW0603
    if price <= highest:
        return False
    highest = price
    return True


def by_helper(price):
    return record(price)


def mean(item):
    WINDOW.append(item)
    return sum(WINDOW) / len(WINDOW)


def tally(item):
    TALLY.n += 1
    return TALLY.n


def deep(item):
    TALLY.of[item] = 1
    return len(TALLY.of)


def picky(item):
    PICKY.n += 1
    return PICKY.n


def ticket(item):
    Ticket.count += 1
    return Ticket.count


def ticket_by_name(item):
    setattr(Ticket, "count", Ticket.count + 1)  # noqa: B010 - that is the point
    return Ticket.count


def numbered(item):
    numbered.calls = getattr(numbered, "calls", 0) + 1
    return numbered.calls


def red(item):
    RED.count = getattr(RED, "count", 0) + 1
    return RED.count


def log(item):
    LOGGER.count = getattr(LOGGER, "count", 0) + 1
    return LOGGER.count


def look_up(item):
    return CELLS.get(Cell(item), len(SEEN))


def aliased(item):
    ALIASED.append(item)
    return len(HOLDER["it"])


def share(item):
    SHARED.append(item)
    return item


def make_counter():
    n = 0

    def count(_):
        nonlocal n
        n += 1
        return n

    return count


def make_window():
    window = []

    def add(item):
        window.append(item)
        return sum(window[-3:])

    return add


def make_numbers():
    numbers = defaultdict(int)

    def number(item):
        return numbers[item]

    return number


def nested():
    n = 0
    inner = make_counter()

    def count(item):
        nonlocal n
        n += inner(item)
        return n

    return count


def lift_of(*functions, on="spark"):
    stream = ab.from_iterable([1.0, 2.0])
    for index, function in enumerate(functions):
        stream = stream.map(function, name=f"m{index}")
    made = ab.compile(stream.to_list(), on=on)
    return made.traits["m0"], made


LIFTED = {
    "a global": (record, "global highest"),
    "a global that a helper assigns": (by_helper, "global highest"),
    "a container in a global": (mean, "global WINDOW"),
    "an object in a global": (tally, "global TALLY"),
    "an outer variable": (make_counter(), "outer variable n"),
    "a container in an outer variable": (make_window(), "outer variable window"),
    "a table that grows when it is read": (make_numbers(), "outer variable numbers"),
}


@pytest.mark.parametrize(("function", "place"), LIFTED.values(), ids=LIFTED)
def test_state_of_one_operator_alone_is_lifted(function, place):
    traits, made = lift_of(function)

    assert [place] == list(map(str, traits.lifted))
    assert not traits.effects
    assert traits.state == "global"
    assert f"its state is lifted: {place}" in made.explain()


def count_and_identify(item):
    WINDOW.append(item)
    return id(item), len(WINDOW)


NOT_LIFTED = {
    "what goes with another effect": (
        count_and_identify,
        r"the code does more than change it: id .+ \(line \d+\)$",
    ),
    "what an object holds": (deep, "changes the global TALLY.of"),
    "what cannot be pickled": (picky, "PICKY cannot be pickled: stays here"),
    "an attribute of a class": (ticket, "Ticket is a class, which is pickled by its"),
    "one that setattr sets": (ticket_by_name, "Ticket is a class"),
    "an attribute of a function": (numbered, "numbered is a function"),
    "an attribute of a member of an enumeration": (red, "not in a variable"),
    "an attribute of a logger": (log, "cannot be followed|by its name"),
    "what has a second way to it": (aliased, "something else .* leads to it"),
    "what another operator reads": (share, "m1 uses it too"),
    "an outer variable of a helper, by the same name": (nested(), "of its own|as well"),
}


@pytest.mark.parametrize(("function", "why"), NOT_LIFTED.values(), ids=NOT_LIFTED)
def test_other_state_is_not_lifted_and_explain_says_why(function, why):
    def read(item):
        return (item, len(SHARED))

    traits, made = lift_of(function, read)

    assert traits.lifted == ()
    assert traits.effects
    with pytest.raises(ValueError, match=why):
        raise ValueError(traits.not_lifted)
    assert "its state is not lifted" in made.explain()


def test_what_pickling_changes_is_not_lifted():
    traits, _ = lift_of(look_up)

    assert traits.not_lifted == "pickling a Cell runs code of the program"


def test_in_one_process_a_global_stays_where_it_is():
    traits, _ = lift_of(record, on="local")

    assert traits.lifted == ()
    assert traits.effects
