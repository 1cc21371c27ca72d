"""Outputs that change later are found even if the analysis has missed them."""

from __future__ import annotations

import pytest

import anabranch as ab
from anabranch.errors import AnabranchError, RefutedError
from anabranch.python import analyze
from tests.operators.test_copied import PROGRAMS
from tests.programs.compare import run_imitated

MISSED = [  # on one thread, or lazy
    "a flat_map by an object that refills its row",
    "a map that gives its global row",
    "groups of groupby",
]
HARMLESS = [  # what follows in the same element has read them by then
    "the same by key",
    "a scan that gives its table in a tuple",
    "a scan that gives its array",
    "a source that refills an attribute",
    "a class whose attribute changes",
    "a class that an operator keeps",
]


@pytest.fixture
def blind(monkeypatch):
    """Let the analysis overlook all outputs that must be copied."""
    monkeypatch.setattr(analyze, "_find_copied", lambda *_: iter(()))


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize("name", PROGRAMS.keys() - MISSED - HARMLESS)
def test_what_changes_after_it_was_given_is_found(name):
    out = PROGRAMS[name][0]().to_list()

    with pytest.raises(AnabranchError, match=r"stay as it was given|has given"):
        ab.run(out, on="local", degree=3)


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize("name", HARMLESS)
def test_what_nobody_sees_changing_is_right(name):
    make, expected = PROGRAMS[name]
    out = make().to_list()

    ab.run(out, on="local", degree=3)

    assert expected == out.items


@pytest.mark.usefixtures("blind")
def test_verify_off_does_not_look():
    out = PROGRAMS["a scan that gives its list"][0]().to_list()

    ab.run(out, on="local", degree=3, verify="off")

    assert 60 == len(out.items)


@pytest.mark.usefixtures("blind")
def test_spark_finds_it_too():
    out = PROGRAMS["a scan that gives its list"][0]().to_list()

    with pytest.raises(RefutedError, match="stay as it was given"):
        run_imitated(2, 7, [out])
