"""What the compiler is told beside the program: where it will run, and by which rules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """What the engine can do.

    A `batched` engine works on epochs of many items, so it can cut any stream without
    state into contiguous ranges and put the results back end to end. With
    `parallel_ends` it can read and write with several workers at once. An `aligned`
    one deals items out in groups, so that blocks of several items can be replicated.
    """

    batched: bool = False
    parallel_ends: bool = True
    aligned: bool = False


@dataclass(frozen=True)
class Rules:
    """Restrictions that can be switched on.

    The paper forbids a shuffle after a prolific region, since the outputs of one item
    share a sequence number. Our positions are hierarchical, so it is allowed unless
    `shuffle_after_prolific` is False; the regions then meet in a merge and a split.

    The paper on hybrid scheduling also forbids a stream of dynamic rate between two
    operators that fixed rates connect some other way. Items find their place by
    position here, so it is allowed unless `dynamic_inside_static` is False.
    """

    shuffle_after_prolific: bool = True
    dynamic_inside_static: bool = True
