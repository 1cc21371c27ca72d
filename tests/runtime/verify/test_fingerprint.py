"""What a fingerprint sees of what a function can reach, and what it must not see."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import random
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from anabranch.runtime.verify.fingerprint import Reach

COUNT = 0
TABLE: dict[str, int] = {"a": 1}
SERIES = np.zeros(100_000)
RNG = random.Random(7)
NUMBERS = iter(range(1000))
QUEUE: collections.deque[int] = collections.deque()


@dataclass
class Settings:
    limit: int = 3
    seen: int = 0


class Lazy:
    @functools.cached_property
    def table(self):
        return {"a": 1}


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


class Counted:
    made: ClassVar[int] = 0

    def __init__(self):
        type(self).made += 1


MADE: list[int] = []


@dataclass
class Numbered:
    number: int = 0

    def __post_init__(self):
        MADE.append(self.number)


class Colour(enum.Enum):
    RED = [0]  # noqa: RUF012 - this is what is tested


SETTINGS = Settings()
SLOTTED = Slotted()
LAZY = Lazy()
HIDDEN = {"deep": [Settings()]}


def reads_count(_):
    return COUNT


def calls_helper(item):
    return reads_count(item) + 1


def closes_over():
    n = 0

    def count(_):
        nonlocal n
        n += 1
        return n

    return count


def has_default(_, seen=[]):  # noqa: B006 - this is what is tested
    seen.append(1)
    return len(seen)


def bump_count():
    global COUNT  # noqa: PLW0603
    COUNT += 1


counting = closes_over()

CHANGES = {
    "a global that is assigned": (reads_count, bump_count, "global COUNT"),
    "a global behind a helper": (calls_helper, bump_count, "global COUNT"),
    "a variable of a closure": (counting, lambda: counting(0), "n"),
    "a mutable default": (has_default, lambda: has_default(0), "a default of"),
    "a value in a dictionary": (
        lambda k: TABLE[k],
        lambda: TABLE.update(a=TABLE["a"] + 1),
        "global TABLE['a']",
    ),
    "a new key": (
        lambda k: TABLE[k],
        lambda: TABLE.update({str(len(TABLE)): 0}),
        "global TABLE",
    ),
    "an attribute": (
        lambda _: SETTINGS.limit,
        lambda: setattr(SETTINGS, "limit", SETTINGS.limit + 1),
        "global SETTINGS.limit",
    ),
    "an attribute deep inside": (
        lambda _: HIDDEN["deep"][0].limit,
        lambda: setattr(HIDDEN["deep"][0], "limit", HIDDEN["deep"][0].limit + 1),
        "global HIDDEN['deep'][0].limit",
    ),
    "an attribute whose name is computed": (
        lambda name: getattr(SETTINGS, name),
        lambda: setattr(SETTINGS, "seen", SETTINGS.seen + 1),
        "global SETTINGS.seen",
    ),
    "a slot": (
        lambda _: SLOTTED.n,
        lambda: setattr(SLOTTED, "n", SLOTTED.n + 1),
        "global SLOTTED.n",
    ),
    "an attribute of a class": (lambda _: Counted().made, Counted, "Counted.made"),
    "the value of a member": (
        lambda _: Colour.RED.value[0],
        lambda: Colour.RED.value.append(1),
        "Colour.RED",
    ),
    "an array": (
        lambda i: SERIES[i],
        lambda: SERIES.__setitem__(slice(None), SERIES + 1),
        "global SERIES",
    ),
    "a random generator": (lambda _: RNG.random(), RNG.random, "global RNG"),
    "an iterator": (lambda _: next(NUMBERS), lambda: next(NUMBERS), "global NUMBERS"),
    "a queue": (lambda _: QUEUE.popleft(), lambda: QUEUE.append(1), "global QUEUE"),
    "what a partial holds": (
        functools.partial(has_default, seen=TABLE),
        lambda: TABLE.update({str(len(TABLE)): 0}),
        "an argument",
    ),
}


@pytest.mark.parametrize(("function", "change", "what"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_what_a_function_reaches_is_found(function, change, what):
    reach = Reach([function])
    before = reach.look()
    change()

    found = before.change_to(reach.look())

    assert found is not None
    assert found.what.startswith(what)
    assert found.before != found.after


def log(_):
    SETTINGS.seen += 1


@functools.lru_cache
def doubled(n):
    return 2 * n


HARMLESS = {
    "nothing": (reads_count, lambda: None),
    "an attribute that no code on the way names": (
        lambda _: SETTINGS.limit,
        lambda: setattr(SETTINGS, "seen", SETTINGS.seen + 1),
    ),
    "a global of the same name as an attribute": (
        lambda item: item.COUNT,
        bump_count,
    ),
    "a cached property": (lambda n: LAZY.table[n], lambda: LAZY.table),
    "a cache of results": (doubled, lambda: doubled(COUNT)),
    "nan, which is not equal to itself": (
        lambda x, n=float("nan"): x + n,
        lambda: None,
    ),
}


@pytest.mark.parametrize(("function", "change"), HARMLESS.values(), ids=HARMLESS)
def test_what_a_function_does_not_use_may_change(function, change):
    reach = Reach([function])
    before = reach.look()
    change()

    assert before.change_to(reach.look()) is None


def test_no_code_of_the_user_runs_on_the_walk():
    class Loud:
        def __getattribute__(self, name):
            raise AssertionError(name)

        def __repr__(self):
            raise AssertionError

        __hash__ = None

        def __eq__(self, other):
            raise AssertionError

    loud = Loud()
    reach = Reach([lambda item: (loud.limit, item)])

    assert reach.look().change_to(reach.look()) is None


def test_a_large_table_is_looked_at_in_part():
    table = list(range(1_000_000))
    reach = Reach([lambda i: table[i]])

    values = reach.look().values

    assert 64 <= len(values) < 200
    table.append(0)
    assert values != reach.look().values


def test_who_made_an_item_is_not_the_operator_that_gets_it():
    reach = Reach([lambda item: item.number], types=[Numbered])
    before = reach.look()

    Numbered()

    assert before.change_to(reach.look()) is None


REMAKERS = {
    "replaced": lambda item: dataclasses.replace(item, number=1),
    "by its class": lambda item: type(item)(1),
    "by name": lambda item: Numbered(item.number),
}


@pytest.mark.parametrize("remake", REMAKERS.values(), ids=REMAKERS)
def test_an_operator_that_makes_items_again_is_seen(remake):
    reach = Reach([remake], types=[Numbered])
    before = reach.look()

    remake(Numbered())

    assert "global MADE" == before.change_to(reach.look()).what
