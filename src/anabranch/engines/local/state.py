"""Moves the states of all operators from one network to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.network import Network, key_projection, table_of
from anabranch.errors import EngineError
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.blocks import Block
from anabranch.plan.plan import Region
from anabranch.runtime.clocked import divide_state, join_states
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.split import GroupRouter, bucket_of

AllStates: TypeAlias = dict[str, dict[Any, Any]]  # operator -> states by key


def first_states(graph: Graph) -> AllStates:
    """Return the initial states, present even if no item ever arrives."""
    states: AllStates = {}
    for op in graph:
        if not isinstance(op.kind, SourceKind | SinkKind):
            kernel = kernel_of(op)
            if kernel.stateful:
                states[op.name] = {} if op.state_key else {(): kernel.open()}
    return states


def gather_states(network: Network, graph: Graph) -> AllStates:
    """Take the states out of an idle network."""
    states: AllStates = {}
    clocked: dict[str, list[Any]] = {}
    for replicas in network.replicas.values():
        for replica in replicas:
            for name, own in replica.states.items():
                if graph[name].timing is not None:
                    clocked.setdefault(name, []).append(own[()])
                    continue
                # Replicas without keyed state are all alike, except the one that has
                # the incomplete group of a region with blocks.
                before = states.get(name, {})
                begun = {k: s for k, s in own.items() if _is_empty(before.get(k))}
                states[name] = {**own, **before, **begun}
    return states | {name: {(): join_states(own)} for name, own in clocked.items()}


def _is_empty(state: Any) -> bool:
    """Tell whether a state is an empty list; user objects are not asked."""
    return type(state) is list and not state


def hand_over(
    states: AllStates,
    network: Network,
    graph: Graph,
    regions: Mapping[str, Region],
    configuration: Configuration,
) -> None:
    """Put states into a network that has not started, each where its bucket is.

    The first replica gets the incomplete group of a region with blocks.
    """
    for element in network.layout.elements.values():
        replicas = network.replicas[element.name]
        for name in replicas[0].states:
            own = states.get(name, {})
            if element.part is None:
                replicas[0].states[name].update(own)
            elif graph[name].timing is not None:
                table = table_of(configuration, element.part)
                find = _find_replica(graph[name], regions[element.part], table)
                divided = divide_state(own[()], len(replicas), find)
                for replica, part in zip(replicas, divided, strict=True):
                    replica.states[name][()] = part
            elif not graph[name].state_key:
                for channel, replica in enumerate(replicas):
                    fresh = own[()] if channel == 0 else kernel_of(graph[name]).open()
                    replica.states[name][()] = fresh
            elif not set(regions[element.part].key) <= set(graph[name].state_key):
                # Only a stateless operator may be in a region of another key.
                replicas[0].states[name].update(own)
            else:
                key = regions[element.part].key
                table = table_of(configuration, element.part)
                part_of = key_projection(graph[name].state_key, key)
                for of_key, state in own.items():
                    channel = table[bucket_of(part_of(of_key))]
                    replicas[channel].states[name][of_key] = state
    _go_on_with_groups(states, network, graph, regions)


def _find_replica(
    op: Op, region: Region, table: Sequence[int]
) -> Callable[[Any], int] | None:
    """Return the function from an operator's key to its replica, if it has keys."""
    if not op.keyed_by:
        return None
    part_of = key_projection(op.keyed_by, region.key)
    return lambda key: table[bucket_of(part_of(key))]


def _go_on_with_groups(
    states: AllStates, network: Network, graph: Graph, regions: Mapping[str, Region]
) -> None:
    """Let regions with blocks continue with their incomplete group."""
    for region in regions.values():
        router = network.router_of(region) if region.period > 1 else None
        if isinstance(router, GroupRouter):
            router.go_on(count_begun_items(graph, region, states))


def count_begun_items(graph: Graph, region: Region, states: AllStates) -> int:
    """Return how many items of the current group have entered a region with blocks.

    The items waiting in front of its blocks tell: within a group no two places leave
    the same behind.
    """
    kinds = [graph[name].kind for name in region.operators]
    blocks = [kind for kind in kinds if isinstance(kind, Block)]
    names = [n for n in region.operators if isinstance(graph[n].kind, Block)]
    held = [len(states[name][()]) for name in names]
    waiting = [0] * len(blocks)
    for entered in range(region.period):
        if waiting == held:
            return entered
        coming = 1
        for number, block in enumerate(blocks):
            fired, waiting[number] = divmod(waiting[number] + coming, block.pop)
            coming = fired * block.push
    msg = f"the blocks of {region.name} hold {held}; no group leaves that behind"
    raise EngineError(msg)
