"""Rejected changes: for good, or per arrangement."""

from __future__ import annotations

from anabranch.control.throughput.tune import Rejections
from anabranch.plan.plan import Arrangement

BARE, OTHER = Arrangement(), Arrangement(frozenset({"x"}))


def test_what_is_listed_for_good_is_listed_everywhere():
    listed = Rejections()
    listed.add({"a"}, BARE)
    listed.add({"b"}, OTHER)

    assert {"a", "b"} == listed.at(BARE) == listed.at(OTHER)


def test_what_is_listed_per_arrangement_is_listed_there_alone():
    listed = Rejections(per_arrangement=True)
    listed.add({"a"}, BARE)

    assert ({"a"}, set()) == (listed.at(BARE), listed.at(OTHER))


def test_it_forgets():
    listed = Rejections()
    listed.add({"a"}, BARE)
    listed.clear()

    assert frozenset() == listed.at(BARE)
