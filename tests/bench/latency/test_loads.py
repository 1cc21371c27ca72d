"""The latency policy against every fixed degree, simulated: the bars of the load table."""

from __future__ import annotations

import pytest

from bench.latency.loads import Cell, Outcome, find_simulated, make_loads, make_shapes

MISSES = {  # cells that are known to miss a bar
    ("hot key", "bursts"): {"replicas"},
}


@pytest.mark.parametrize(
    ("shape", "load"),
    [("plain", "bursts"), ("hot key", "bursts")],
)
def test_bursts_find_the_replicas_that_they_need(shape, load):
    cell = find_simulated("waits", shape, load, seconds=30.0)

    assert cell.ours.inside >= 98
    assert MISSES.get((shape, load), set()) >= set(cell.missed())


@pytest.mark.long
@pytest.mark.parametrize("load", make_loads(1.0))
@pytest.mark.parametrize("shape", make_shapes(1.0))
@pytest.mark.parametrize("work", ["needs a core", "waits"])
def test_every_cell_meets_its_bars_but_those_that_are_named(work, shape, load):
    """A constant load has the paper's regulator change nothing, and late for ever."""
    missed = set(find_simulated(work, shape, load).missed())

    if load == "constant":
        missed -= {"changes"}
    assert MISSES.get((shape, load), set()) >= missed


def test_a_cell_names_the_bars_that_it_misses():
    fixed = {1: Outcome(50.0, 1.0, 0), 2: Outcome(99.0, 2.0, 0), 3: Outcome(99.0, 3, 0)}
    names = ("waits", "plain", "bursts")
    good = Cell(names, Outcome(97.0, 3.0, 4), Outcome(99.0, 11.0, 10), fixed)
    bad = Cell(names, Outcome(96.9, 3.1, 5), Outcome(99.0, 11.0, 10), fixed)

    assert 2 == good.best
    assert [] == good.missed()
    assert ["inside", "replicas", "changes"] == bad.missed()
