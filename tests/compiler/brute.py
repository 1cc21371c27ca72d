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
        found += _of_shape(graph, net, region)
        found += _of_region(graph, traits, region)
        found += _of_keys(graph, traits, net, region)
        found += _of_entries(graph, traits, net, region)
        found += _of_numbers(plan, net, region)
    found += _of_fusion(graph, net, plan, region_of)
    found += _of_punctuation(graph, traits, net, region_of)
    found += _of_sinks(graph, plan, target)
    return found


def unchained(graph, plan):
    """Return every region that is no chain of operators with one stream in and out."""
    net = nx.MultiDiGraph(
        [(e.producer.operator, e.consumer.operator) for e in graph.edges]
    )
    net.add_nodes_from(graph.names)
    found = []
    for region in plan.regions:
        for one, two in itertools.pairwise(region.operators):
            if not net.has_edge(one, two):
                found.append(f"{one} and {two} are not connected")
        for name in region.operators:
            degrees = net.in_degree(name), net.out_degree(name)
            if max(*degrees, graph[name].kind.outputs) > 1:
                found.append(f"{name} has more than one neighbour on a side")
    return found


def _of_shape(graph, net, region):
    members = region.operators
    if not nx.is_connected(nx.Graph(net.subgraph(members))):
        yield f"{region.name} is not connected"
    outside = nx.DiGraph(net)
    outside.remove_edges_from(list(net.subgraph(members).edges()))
    for one, two in itertools.product(members, repeat=2):
        if one != two and nx.has_path(outside, one, two):
            yield f"something outside lies between {one} and {two}"
    sources = [n for n in members if isinstance(graph[n].kind, SourceKind)]
    if sources and _entries(graph, members) != set(sources[:1]):
        yield f"{sources[0]} is read by range, but other items come in beside it"


def _of_region(graph, traits, region):
    for name in region.operators:
        op, of_op = graph[name], traits[name]
        if of_op.state not in {"stateless", "keyed"}:
            yield f"{name} has global state"
        if isinstance(op.kind, SourceKind | SinkKind):
            if not of_op.in_parallel:
                yield f"{name} is for one worker"
        elif of_op.pop != 1:
            yield f"{name} takes {of_op.pop} items"
        if isinstance(op.kind, Block) and (op.kind.pop > 1 or op.kind.peek > 1):
            yield f"{name} is a block of several items"


def _entries(graph, members):
    """The operators of a region that get items from elsewhere."""
    return {
        name
        for name in members
        if not graph[name].inputs
        or any(output.operator not in members for output in graph[name].inputs)
    }


def _of_keys(graph, traits, net, region):
    members = region.operators
    keyed = [name for name in members if traits[name].state == "keyed"]
    if keyed and not region.key:
        yield f"{region.name} has keyed operators but no key"
    if region.key and not keyed:
        yield f"{region.name} has a key but nothing is keyed"
    inside = nx.DiGraph(net.subgraph(members))
    for name in keyed:
        if not set(region.key) <= set(traits[name].key):
            yield f"{region.key} is not in the key of {name}"
        for earlier in nx.ancestors(inside, name):
            if isinstance(graph[earlier].kind, SourceKind):
                if traits[earlier].state != "keyed":
                    yield f"{name} is keyed below a source that is not"
                continue
            forwards = traits[earlier].forwards
            if forwards is not None and not set(region.key) <= forwards:
                yield f"{earlier} does not forward {region.key} to {name}"


def _of_entries(graph, traits, net, region):
    """Every stream that comes in leads, by some entry, to an operator with a key."""
    members = region.operators
    keyed = {name for name in members if traits[name].state == "keyed"}
    inside = nx.DiGraph(net.subgraph(members))
    by_key, other = set(), []
    for entry in _entries(graph, members) if region.key else ():
        streams = {o for o in graph[entry].inputs if o.operator not in members}
        if ({entry} | nx.descendants(inside, entry)) & keyed:
            by_key |= streams
        else:
            other.append((entry, streams))
    for entry, streams in other:
        if not streams or streams - by_key:
            yield f"what comes in at {entry} need not have {region.key}"


def _of_numbers(plan, net, region):
    """What numbers can be seen at the end of a region, by listing them."""
    regions = {name: r for r in plan.regions for name in r.operators}
    chain = [region]
    for one in chain:
        if one.first_joint == "shuffle":
            before = {n for name in one.operators for n in net.predecessors(name)}
            chain += {id(r): r for n in before if (r := regions.get(n))}.values()
            chain = list({r.name: r for r in chain}.values())
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
