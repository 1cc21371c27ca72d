"""Which regions of the plan are replicated here, and how their order is kept."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.engines.local.configuration import Configuration
from anabranch.graph.graph import Graph
from anabranch.graph.kinds import Punctuate
from anabranch.graph.sinks import SinkKind
from anabranch.graph.sources import Source
from anabranch.plan.plan import Plan, Region
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.merge import Strategy


def replicated_operators(graph: Graph, region: Region) -> tuple[str, ...]:
    """Return the operators of a region that channels run.

    Sources are read, and sinks written, by one thread: that is what splits and merges.
    """
    return tuple(
        name
        for name in region.operators
        if not isinstance(graph[name].kind, Source | SinkKind)
    )


def why_not_replicated(
    graph: Graph, region: Region, punctuated: frozenset[str]
) -> str | None:
    """Return why a region has one channel only, or None."""
    names = replicated_operators(graph, region)
    if not names:
        return "it only reads or writes"
    for name in names:
        op = graph[name]
        marked = punctuated.intersection(graph.producers(name))
        if marked and kernel_of(op).handles_punctuation:
            return f"{name} answers punctuations for all keys at once, by key order"
    return None


def parts_of(
    graph: Graph,
    plan: Plan,
    configuration: Configuration,
    punctuated: frozenset[str],
    *,
    resilient: bool = False,
) -> dict[str, str]:
    """Return for each operator that has several replicas the region it is in."""
    parts: dict[str, str] = {}
    for region in plan.regions:  # left to right, so what comes before is known
        names = replicated_operators(graph, region)
        if configuration.degrees.get(region.name, 1) == 1:
            continue
        if why_not_replicated(graph, region, punctuated) is not None:
            continue
        if why_not_in_groups(graph, region, parts, resilient=resilient) is None:
            parts |= dict.fromkeys(names, region.name)
    return parts


def why_not_in_groups(
    graph: Graph, region: Region, parts: Mapping[str, str], *, resilient: bool
) -> str | None:
    """Return why items cannot be dealt out in groups where a region needs that."""
    if region.period == 1:
        return None
    if resilient:
        return "an item that fails leaves a gap in its group"
    (first, *_) = replicated_operators(graph, region)
    if any(name in parts for name in graph.producers(first)):
        return "replicas of another region deal its items out"
    return None


def part_strategies(
    graph: Graph,
    plan: Plan,
    parts: Mapping[str, str],
    shuffled: frozenset[tuple[str, str]],
    *,
    resilient: bool,
) -> dict[str, Strategy]:
    """Return how the merger of each replicated region keeps order."""
    in_shuffle = {name for pair in shuffled for name in pair}
    return {
        region.name: _strategy(
            graph, region, resilient=resilient, shuffle=region.name in in_shuffle
        )
        for region in plan.regions
        if region.name in parts.values()
    }


def is_one_to_one(graph: Graph, region: Region) -> bool:
    """Tell whether a region gives one output for each item, and each punctuation."""
    ops = [graph[name] for name in replicated_operators(graph, region)]
    return region.push == (1, 1) and all(
        kernel_of(op).forwards_punctuation and not isinstance(op.kind, Punctuate)
        for op in ops
    )


def _strategy(
    graph: Graph, region: Region, *, resilient: bool, shuffle: bool
) -> Strategy:
    if any(isinstance(graph[name].kind, Punctuate) for name in region.operators):
        return "relaxed"  # a punctuation has the number of the item that it follows
    strategy = _planned(region)
    if strategy in ("round_robin", "seqno") and (
        # They rely on one output for each item: an item that fails leaves a gap, and so
        # do the numbers that a shuffle sent to other channels.
        resilient or shuffle or not is_one_to_one(graph, region)
    ):
        return "strict"
    return strategy


def _planned(region: Region) -> Strategy:
    match region.ordering:
        case "round_robin" | "seqno" | "strict" | "relaxed" as planned:
            return planned
    # Contiguous ranges are for engines that read in parallel; without any order the
    # result would depend on luck, and order is cheap here.
    if region.push == (1, 1):
        return "seqno" if region.key else "round_robin"
    most = region.push.most
    return "strict" if most is not None and most <= 1 else "relaxed"
