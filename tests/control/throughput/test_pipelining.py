"""The optimizer on the paper's example, and against a search that tries everything."""

from __future__ import annotations

import itertools
import random

import pytest

from anabranch.control.throughput.pipelining import choose_ports, utility
from anabranch.metrics.pipeline import ThreadLoad
from tests.control.example import EXAMPLE

SWITCHES = list(itertools.product((False, True), repeat=2))


def every_solution(
    profile: tuple[ThreadLoad, ...], beta: float, excluded: frozenset[str]
):
    """
    Yield each set of ports that puts one and only one port into the path of each
    bottleneck thread, whatever it costs.
    """
    needy = [load for load in profile if load.utilization >= beta]
    ports = sorted({p for load in needy for p in load.ports} - excluded)
    for size in range(1, len(needy) + 1):
        for chosen in itertools.combinations(ports, size):
            if all(len(load.ports.keys() & set(chosen)) == 1 for load in needy):
                yield chosen


def random_profile(seed: int) -> tuple[ThreadLoad, ...]:
    """Make threads that all come by one operator: they are one group."""
    pick = random.Random(seed)
    operators = [f"o{n}" for n in range(pick.randint(2, 6))]
    threads = []
    for number in range(pick.randint(1, 4)):
        path = [o for o in operators if pick.random() < 0.6]
        uses = {o: pick.uniform(0.01, 0.8) for o in path}
        uses["common"] = pick.uniform(0.01, 0.3)
        threads.append(ThreadLoad(f"t{number}", pick.uniform(0.7, 1.0), uses))
    return tuple(threads)


@pytest.mark.parametrize(("pruning", "sorting"), SWITCHES)
def test_the_running_example_of_the_paper(pruning, sorting):
    """
    Section 4.1: o4 for t0, t1 and t2, o8 for t3, with an aggregate utility of 0.8.
    """
    found = choose_ports(EXAMPLE, beta=0.8, pruning=pruning, sorting=sorting)

    assert found is not None
    assert {"t0": "o4", "t1": "o4", "t2": "o4", "t3": "o8"} == found.places
    assert pytest.approx(0.8) == found.utility


def test_the_tree_of_figure_5_has_nine_nodes():
    found = choose_ports(EXAMPLE, beta=0.8, pruning=False, sorting=False)

    assert found is not None
    assert found.nodes == 9


def test_pruning_stops_at_s3_and_at_r4():
    """
    S3 gives the new thread 100% of a core, and R4 leaves t1 without any port; so the
    two leaves below each of them are not visited.
    """
    found = choose_ports(EXAMPLE, beta=0.8, pruning=True, sorting=False)

    assert found is not None
    assert found.nodes == 5


def test_sorting_decides_first_about_the_operator_that_most_threads_share():
    """
    o4 is in three rows. Selecting it leaves nothing shared, removing it leaves t1 with
    o3 alone, which is pruned when it is selected and when it is removed.
    """
    found = choose_ports(EXAMPLE, beta=0.8, pruning=True, sorting=True)

    assert found is not None
    assert found.nodes == 3


def test_threads_below_beta_are_not_helped():
    """
    Section 4.1 with beta at 0.92: only t1 and t3 are bottlenecks. o4 lowers t1 to 0.8;
    o3 would give the new thread all the work of t0 and t1.
    """
    found = choose_ports(EXAMPLE, beta=0.92)

    assert found is not None
    assert {"t1": "o4", "t3": "o8"} == found.places


def test_excluded_ports_are_not_chosen():
    found = choose_ports(EXAMPLE, beta=0.92, excluded={"o8"})

    assert found is not None
    assert {"t1": "o4", "t3": "o9"} == found.places


def test_a_group_with_a_thread_that_cannot_be_helped_gets_nothing():
    """
    Without o3 and o4 there is no place in t1, and t0, t2 and t3 depend on it.
    """
    assert choose_ports(EXAMPLE, beta=0.8, excluded={"o3", "o4"}) is None


def test_a_group_that_cannot_be_helped_does_not_keep_others_from_it():
    stuck = ThreadLoad("stuck", 1.0, {})
    free = ThreadLoad("free", 1.0, {"a": 0.5})

    found = choose_ports((stuck, free))

    assert found is not None
    assert {"free": "a"} == found.places


def test_a_port_that_moves_all_the_work_is_no_solution():
    assert choose_ports((ThreadLoad("t", 1.0, {"all": 1.0}),)) is None


def test_an_operator_that_was_never_seen_is_no_place():
    assert choose_ports((ThreadLoad("t", 1.0, {"idle": 0.0}),)) is None


@pytest.mark.parametrize("seed", range(200))
def test_nothing_is_better_than_what_it_finds(seed):
    """
    Trying every set of ports that obeys the paper's rule finds no lower aggregate
    utility, and finds a solution exactly when the optimizer does.
    """
    profile = random_profile(seed)
    excluded = frozenset({"o0"} if seed % 3 == 0 else ())
    solutions = every_solution(profile, 0.75, excluded)
    utilities = [max(utility(profile, port) for port in ports) for ports in solutions]
    best = min((u for u in utilities if u < 1), default=None)

    for pruning, sorting in SWITCHES:
        found = choose_ports(
            profile, beta=0.75, excluded=excluded, pruning=pruning, sorting=sorting
        )
        assert best == (None if found is None else pytest.approx(found.utility))


@pytest.mark.parametrize("seed", range(50))
def test_pruning_never_visits_more(seed):
    profile = random_profile(seed)
    pruned = choose_ports(profile, beta=0.75, sorting=False)
    whole = choose_ports(profile, beta=0.75, sorting=False, pruning=False)

    assert (pruned is None) == (whole is None)
    assert pruned is None or whole is None or pruned.nodes <= whole.nodes
