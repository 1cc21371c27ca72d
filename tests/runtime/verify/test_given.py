"""Outputs that change later are found even if the analysis has missed them."""

from __future__ import annotations

import pytest

import anabranch as ab
from anabranch.errors import AnabranchError, RefutedError
from anabranch.python import analyze
from anabranch.runtime.verify.given import SourceWatch
from tests.operators.test_copied import PROGRAMS
from tests.programs.compare import run_imitated

MISSED = (  # on one thread, or lazy
    "a flat_map by an object that refills its row",
    "a map that gives its global row",
    "groups of groupby",
)
FOUND = (
    "a scan that gives its list",
    "an operator that gives its queue",
    "a flat_map that refills a table",
    "a generator that refills a list",
    "a source that refills a list",
)


@pytest.fixture
def blind(monkeypatch):
    """Let the analysis overlook all outputs that must be copied."""
    monkeypatch.setattr(analyze, "_find_copied", lambda *_: iter(()))


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in MISSED])
def test_what_changes_after_it_was_given_is_found_or_harms_nobody(name):
    make, expected = PROGRAMS[name]
    out = make().to_list()
    found = False

    try:
        ab.run(out, on="local", degree=3)
    except AnabranchError as error:
        found = "stay as it was given" in str(error)

    assert found or (expected == out.items and name not in FOUND)


@pytest.mark.usefixtures("blind")
def test_the_first_items_of_a_source_are_watched_however_often_it_is_read_on():
    """
    A live source is read anew for each batch, however small.
    """
    out = ab.from_iterable([0]).to_list()
    (source,) = ab.compile(out, on="local").graph.sources
    watch = SourceWatch(source)

    for _ in range(4):
        assert [1, 2] == list(watch.iterate([1, 2]))

    unwatched = iter([3])
    assert unwatched is watch.iterate(unwatched)


def test_verify_off_does_not_look():
    out = PROGRAMS["a scan that gives its list"][0]().to_list()

    ab.run(out, on="local", degree=3, verify="off")

    assert 60 == len(out.items)


@pytest.mark.usefixtures("blind")
def test_spark_finds_it_too():
    out = PROGRAMS["a scan that gives its list"][0]().to_list()

    with pytest.raises(RefutedError, match="stay as it was given"):
        run_imitated([out], degree=2, epoch_items=7)
