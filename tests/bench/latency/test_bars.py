"""The bars of latency goals hold on loads by chance, in simulated time."""

from __future__ import annotations

import math

import pytest

from bench.latency import burst as latency_burst
from bench.latency.bars import SHARE, Bar, Run, Trace, bars, best_fixed
from tests import needs


@pytest.fixture
def trace():
    return Trace(((10, 12), (20, 12), (40, 3), (20, 12)), bound_s=1.0)


@pytest.fixture
def run(trace):
    """Return what makes a run in which items due in some seconds are late."""

    def made(*changes, late_s=(), epochs_s=(), first=1):
        pairs = [
            (due_s, 2.0 if int(due_s) in late_s else 0.1) for due_s in trace.load.due_s
        ]
        return Run("ours", pairs, first, changes, epochs_s)

    return made


def test_steady_is_what_begins_ten_seconds_after_a_change(trace):
    assert [(10, 12), (22, 24), (37, 39)] == trace.steady


def test_a_doubling_that_lasts_is_a_rise_and_a_burst_is_none(trace):
    assert [(12, 24)] == trace.rises


def test_a_rise_is_seen_with_the_first_change_after_it(run, trace):
    assert 1.5 == run((2.0, 3), (13.5, 4), (20.0, 5)).seen(trace)
    assert math.inf == run((2.0, 3)).seen(trace)


def test_or_after_so_many_epochs(run, trace):
    ours = run((13.5, 4), epochs_s=[11.0, 12.5, 13.0, 13.4, 14.0])

    assert 3 == ours.seen(trace)


def test_a_rise_has_settled_when_the_rest_of_it_keeps_the_bound(run, trace):
    assert 0 == run().settled(trace)
    assert 3 == run(late_s={12, 14}).settled(trace)
    assert 0 == run(late_s={26}).settled(trace)


def test_the_best_fixed_setting_is_the_smallest_that_keeps_the_bound(run, trace):
    settings = [run(first=3), run(first=1, late_s=range(40)), run(first=2)]

    assert 2 == best_fixed(trace, settings).most


def test_a_bar_is_met_or_missed():
    assert Bar("share", 99.0, least=99.0).met
    assert not Bar("share", 98.9, least=99.0).met
    assert Bar("replicas", 3, most=3).met
    assert not Bar("seen", math.inf, most=5).met


@pytest.mark.parametrize("seed", needs.quick(1, range(30, 42)))
@pytest.mark.parametrize(
    ("simulated", "bound_s", "scale"),
    [("on_threads", 0.05, 0.6), ("in_epochs", 1.0, 0.5)],
)
def test_the_bars_hold_on_steps_and_bursts_by_chance(simulated, bound_s, scale, seed):
    go = getattr(latency_burst, simulated)
    trace = latency_burst.unseen_trace(seed, bound_s, scale)
    ours, theirs = go(trace, "predictive", 1, seed), go(trace, "reactive", 1, seed)
    held = {ours.most, *(ours.degree_at(begin_s) for begin_s, _ in trace.rises)}
    fixed = [go(trace, None, degree, seed) for degree in held]

    steady, seen, settled, _, changes = bars(trace, ours, theirs, fixed, enough=fixed)

    assert steady.met
    assert seen.met
    assert settled.met
    assert changes.met
    if ours.most > 2:
        fewer = go(trace, None, ours.most - 2, seed)
        assert fewer.within(trace) < SHARE
