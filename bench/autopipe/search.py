"""What figures 16 and 17 share: random profiles, and what searching them costs."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

from anabranch.control.throughput.pipelining import (
    Matrix,
    Search,
    dependent_groups,
    utility,
)
from anabranch.metrics.pipeline import ThreadLoad

WAYS = {"basic": (False, False), "pruning": (True, False), "both": (True, True)}
RUNS = 5


def nodes(profile: tuple[ThreadLoad, ...], way: str) -> int:
    """Return how many nodes of the tree are visited."""
    search = Search(cache(lambda port: utility(profile, port)), *WAYS[way])
    for group in dependent_groups(profile):
        paths = tuple(tuple(load.ports) for load in group)
        for _ in search.leaves(Matrix(paths, paths)):
            pass
    return search.nodes


def loads(
    paths: list[list[str]], pick: random.Random, *, heavy: bool
) -> tuple[ThreadLoad, ...]:
    """Return busy threads with these paths and random utilizations.

    The paper draws them uniformly and does not tell from which range. `heavy` ones are
    up to a core for each thread, so that most shared operators cannot be selected;
    others are up to a core for all threads that share an operator.
    """
    sharing = Counter(operator for path in paths for operator in path)
    return tuple(
        ThreadLoad(
            f"t{number}",
            1.0,
            {o: pick.random() / (1 if heavy else sharing[o]) for o in path},
        )
        for number, path in enumerate(paths)
    )
