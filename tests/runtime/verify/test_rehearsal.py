"""Items that are computed twice, in another order, must come out alike."""

from __future__ import annotations

import itertools
import logging
import random
from dataclasses import dataclass, field

import pytest

import anabranch as ab
from anabranch.errors import RefutedError
from anabranch.language.drafts import build_graph
from anabranch.runtime.verify.rehearsal import OpaqueError, Rehearsal, describe_value
from tests.runtime.verify.cases import mislead, run_misled

BUFFERS = itertools.cycle([[]])  # its state cannot be looked into
NUMBERS = itertools.cycle(range(1000))
LOG = logging.getLogger(__name__)


@dataclass
class Box:
    n: int
    held: list = field(default_factory=list)


def draw(item):
    return item + random.random()


def take(item):
    return next(NUMBERS) * 0 + (item if item % 2 else next(NUMBERS))


def fill(item):
    buffer = next(BUFFERS)
    buffer.append(item)
    return buffer


def bump(box):
    box.n += 1
    return box.n


def use_up(items):
    return list(items)


def note(item):
    LOG.warning("got %s", item)
    return item + 1


@ab.declare(state="stateless")
def believed(item):
    return item + next(NUMBERS) * 0


def use_believed(item):
    return believed(item) + 1


def run_wrongly(function, items, verify="sample"):
    """Run a map on the local engine as if its function had no state."""
    out = ab.from_iterable(items).map(function, name="it").to_list()
    made = mislead([out], "local", [function])
    run_misled(made, "local", degree=2, verify=verify)
    return out.items


@pytest.mark.parametrize("verify", ["sample", "all"])
@pytest.mark.parametrize("function", [draw, take])
def test_another_result_for_the_same_item_stops_the_job(function, verify):
    with pytest.raises(RefutedError, match=r"what it gives for .* has changed: "):
        run_wrongly(function, list(range(60)), verify)


def test_a_result_that_is_changed_later_is_found():
    graph = build_graph([ab.from_iterable([1]).map(fill, name="it").to_list()])

    with pytest.raises(RefutedError, match=r"has given \[1\], .* was \[1, 2\]"):
        Rehearsal(graph, ["it"]).find("from_iterable", ["it"], [1, 2])


def test_an_item_that_is_changed_stops_the_job():
    boxes = [Box(n) for n in range(60)]

    with pytest.raises(RefutedError, match="an item that it was given has changed"):
        run_wrongly(bump, boxes)


def test_nothing_is_computed_again_without_verification():
    assert len(run_wrongly(draw, list(range(60)), "off")) == 60


def test_operators_behind_others_are_looked_at_too():
    numbers = ab.from_iterable(range(60)).map(lambda n: n + 1).filter(lambda n: n > 3)
    out = numbers.map(draw, name="draws").to_list()
    made = mislead([out], "local", [draw])

    with pytest.raises(RefutedError, match="'draws'"):
        run_misled(made, "local", degree=2)


def test_items_that_would_be_used_up_are_left_alone():
    items = [iter([n, n + 1]) for n in range(60)]

    assert run_wrongly(use_up, items, "all") == [[n, n + 1] for n in range(60)]


def test_what_is_logged_is_logged_once(caplog):
    out = ab.from_iterable(range(30)).map(note).to_list()

    with caplog.at_level(logging.WARNING, logger=LOG.name):
        ab.run(out, on="local", degree=2, verify="all")

    assert out.items == list(range(1, 31))
    assert len(caplog.records) == 30


def test_what_uses_a_declared_function_is_believed():
    out = ab.from_iterable(range(60)).map(use_believed).to_list()

    ab.run(out, on="local", degree=2, verify="all")

    assert out.items == list(range(1, 61))


def test_a_value_is_described_by_all_that_it_holds():
    box = Box(1, [{"a": (1, 2.0)}])
    before = describe_value(box)

    assert before == describe_value(Box(1, [{"a": (1, 2.0)}]))
    box.held[0]["a"] = (1, 2)
    assert describe_value(box) != before


def test_a_value_that_would_have_to_be_used_is_not_described():
    with pytest.raises(OpaqueError):
        describe_value([iter([1])])
