"""The safety conditions, checked one by one on a finished plan, the slow way.

Written from the paper's 3.1 and 5.3 without a look at the compiler: everything is asked
of paths in a networkx graph, nothing is carried along.
"""

from __future__ import annotations

import itertools

import networkx as nx

from anabranch.compiler.options import Target
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.operators.blocks import Block


def violations(graph, traits, plan, target=None):
    """Return every safety condition that a plan breaks, as text."""
    target = target or Target()
    net = nx.MultiDiGraph()
    net.add_nodes_from(graph.names)
    net.add_edges_from((e.producer.operator, e.consumer.operator) for e in graph.edges)
    region_of = {name: r.name for r in plan.regions for name in r.operators}
    found = []
    for region in plan.regions:
        found += _of_region(graph, traits, net, region)
        found += _of_keys(graph, traits, region)
        found += _of_numbers(plan, net, region)
    found += _of_fusion(graph, net, plan, region_of)
    found += _of_punctuation(graph, traits, net, region_of)
    found += _of_sinks(graph, plan, target)
    return found


def _of_region(graph, traits, net, region):
    members = region.operators
    for one, two in itertools.pairwise(members):
        if not net.has_edge(one, two):
            yield f"{one} and {two} are not connected"
    for name in members:
        op, of_op = graph[name], traits[name]
        if of_op.state not in {"stateless", "keyed"}:
            yield f"{name} has global state"
        if net.in_degree(name) > 1 or net.out_degree(name) > 1 or op.kind.outputs > 1:
            yield f"{name} has more than one neighbour on a side"
        if isinstance(op.kind, SourceKind | SinkKind):
            if not of_op.in_parallel:
                yield f"{name} is for one worker"
        elif of_op.pop != 1:
            yield f"{name} takes {of_op.pop} items"
        if isinstance(op.kind, Block) and (op.kind.pop > 1 or op.kind.peek > 1):
            yield f"{name} is a block of several items"


def _of_keys(graph, traits, region):
    members = region.operators
    keyed = [name for name in members if traits[name].state == "keyed"]
    if keyed and not region.key:
        yield f"{region.name} has keyed operators but no key"
    if region.key and not keyed:
        yield f"{region.name} has a key but nothing is keyed"
    for name in keyed:
        if not set(region.key) <= set(traits[name].key):
            yield f"{region.key} is not in the key of {name}"
        for earlier in members[: members.index(name)]:
            if isinstance(graph[earlier].kind, SourceKind):
                if traits[earlier].state != "keyed":
                    yield f"{name} is keyed below a source that is not"
                continue
            forwards = traits[earlier].forwards
            if forwards is not None and not set(region.key) <= forwards:
                yield f"{earlier} does not forward {region.key} to {name}"


def _of_numbers(plan, net, region):
    """What numbers can be seen at the end of a region, by listing them."""
    regions = {name: r for r in plan.regions for name in r.operators}
    chain = [region]
    while chain[0].first_joint == "shuffle":
        [before] = net.predecessors(chain[0].operators[0])
        chain.insert(0, regions[before])
    gaps = any(r.push.least == 0 for r in chain) or region.last_joint == "shuffle"
    repeats = any(r.push.most is None or r.push.most > 1 for r in chain) and not any(
        r.push.most == 0 for r in chain
    )
    allowed = {"relaxed", "position"}
    if not repeats:
        allowed.add("strict")
        if not gaps:
            allowed.add("seqno")
            if not region.key and len(chain) == 1:
                allowed.add("round_robin")
    if not region.key:
        allowed.add("contiguous")
    if region.ordering not in allowed:
        yield f"{region.name} is ordered by {region.ordering}; allowed are {allowed}"


def _of_fusion(graph, net, plan, region_of):
    element_of = {name: e.name for e in plan.elements for name in e.operators}
    for op in graph:
        if op.fuse_with is None:
            continue
        if region_of.get(op.name) != region_of.get(op.fuse_with):
            yield f"{op.name} and {op.fuse_with} are fused across regions"
        if element_of[op.name] != element_of[op.fuse_with]:
            yield f"{op.name} and {op.fuse_with} are in two elements"


def _of_punctuation(graph, traits, net, region_of):
    """For every way from a maker of punctuations to who awaits them."""
    for maker, awaiting in itertools.product(graph.names, repeat=2):
        if traits[maker].punctuation != "generating":
            continue
        if not traits[awaiting].expects_punctuation:
            continue
        if not _marks_arrive(traits, net, maker, awaiting):
            continue
        inside = region_of.get(maker)
        if inside is not None and inside != region_of.get(awaiting):
            yield f"{awaiting} awaits punctuations that replicas of {maker} make"
        if inside is None and awaiting in region_of:
            yield f"replicas of {awaiting} each act on a punctuation of {maker}"
        if awaiting in region_of and inside != region_of[awaiting]:
            yield f"punctuations of {maker} are copied to every {awaiting}"
    for name in region_of:
        if traits[name].expects_punctuation and traits[name].state == "keyed":
            yield f"a punctuation would close only some keys of {name}"


def _marks_arrive(traits, net, maker, awaiting):
    passing = [
        name
        for name in net
        if name in {maker, awaiting} or traits[name].punctuation != "free"
    ]
    ways = nx.DiGraph(net.subgraph(passing))
    return maker != awaiting and nx.has_path(ways, maker, awaiting)


def _of_sinks(graph, plan, target):
    for region in plan.regions:
        for name in region.operators:
            if not isinstance(graph[name].kind, SinkKind):
                continue
            ranges = region.first_joint == "parallel_source" or target.batched
            if region.ordering != "contiguous" or not ranges:
                yield f"{name} is written out of order"
