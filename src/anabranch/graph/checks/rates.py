"""Are fixed rates possible, and do the branches of a split-join balance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from anabranch.errors import Fault
from anabranch.graph.balance import Flow, balance, rates_of
from anabranch.graph.blocks import Block, Collect, Deal
from anabranch.graph.checks.streams import Streams, fault
from anabranch.graph.graph import Op
from anabranch.graph.kinds import Barrier, Split


def rates(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each rate, weight or number of branches that cannot be."""
    ports = _ports_read(streams)
    for op in streams.ops:
        match op.kind:
            case Block() as block:
                yield from _block(op, block)
            case Deal(weights=weights):
                yield from _weights(op, weights, ports.get(op.name, 0), "splitter")
            case Collect(weights=weights):
                yield from _weights(op, weights, len(op.inputs), "joiner")
            case Split(branches=branches) if not _whole(branches, 1):
                yield fault(
                    op,
                    f"split must have 1 or more streams; n is {branches!r}",
                    "give n the number of streams that route chooses from",
                )


def balances(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each joiner whose branches run ahead of one another."""
    joiners = [op for op in streams.ops if isinstance(op.kind, Collect)]
    if not joiners or any(True for _ in rates(streams)):
        return  # rates that cannot be are no ground for a second complaint
    everything = _flows(streams.ops, streams)
    if not _unbalanced(everything) and not _starved(joiners, everything):
        return
    for op in joiners:
        yield from _joiner(op, streams)


def _joiner(op: Op, streams: Streams) -> Iterator[Fault]:
    assert isinstance(op.kind, Collect)  # noqa: S101
    flows = _flows(_upstream(op, streams), streams)
    before = [flow for flow in flows if flow.consumer != op.name]
    own = [flow for flow in flows if flow.consumer == op.name]
    if _unbalanced(before) or len(own) != len(op.inputs):
        return  # a joiner further up has the fault, or some rate is not known
    if not _unbalanced(flows) and not _starved([op], flows):
        return
    repetitions = balance(_operators(flows), before).repetitions
    silent = _silent(flows)
    given = [
        0 if flow in silent else flow.push * repetitions[flow.producer] for flow in own
    ]
    common = gcd(*given) or 1
    fitting = [amount // common for amount in given]
    yield fault(
        op,
        f"its branches give items as {_ratio(fitting)}, but it takes them as "
        f"{_ratio(op.kind.weights)}: items of a branch would pile up without end",
        f"join with ab.round_robin({fitting}), or change the rates of the branches",
    )


def _starved(joiners: Sequence[Op], flows: Sequence[Flow]) -> bool:
    """Tell whether a joiner waits for a branch that gives nothing, or the reverse."""
    names = {op.name for op in joiners}
    silent = _silent(flows)
    return any((f in silent) != (f.pop == 0) for f in flows if f.consumer in names)


def _silent(flows: Sequence[Flow]) -> set[Flow]:
    """Return the streams that never carry an item; producers come first in `flows`."""
    idle: set[str] = set()
    silent = set()
    for flow in flows:
        if flow.push == 0 or flow.producer in idle:
            silent.add(flow)
            if flow.pop:
                idle.add(flow.consumer)
    return silent


def _flows(ops: Sequence[Op], streams: Streams) -> list[Flow]:
    """Return the streams into operators of fixed rates.

    What an operator gives at a rate that nobody knows still reaches all consumers of
    one of its streams alike: the stream itself stands for it.
    """
    flows = []
    for op in ops:
        taken = _fixed(op)
        for port, stream in enumerate(op.inputs if taken else ()):
            producer = streams.producer(stream)
            given = None if producer is None else _fixed(producer)
            assert taken is not None  # noqa: S101
            if given is None or stream.port >= len(given[1]):
                name, push = f"{stream.operator}[{stream.port}]", 1
            else:
                name, push = stream.operator, given[1][stream.port]
            flows.append(Flow(name, push, op.name, taken[0][port]))
    return flows


def _fixed(op: Op) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return what an operator takes and gives; a barrier may wait for its streams."""
    found = None if isinstance(op.kind, Barrier) else rates_of(op)
    if found is None or len(found.pops) != len(op.inputs):
        return None
    return found.pops, found.pushes


def _upstream(op: Op, streams: Streams) -> list[Op]:
    """Return an operator and what lies before it, as far as rates are fixed."""
    found = {op.name: op}
    waiting = [op]
    for at in waiting:  # grows as it goes
        for stream in at.inputs:
            producer = streams.producer(stream)
            if producer is None or producer.name in found or _fixed(producer) is None:
                continue
            found[producer.name] = producer
            waiting.append(producer)
    return [op for op in streams.ops if op.name in found]


def _unbalanced(flows: Sequence[Flow]) -> bool:
    return bool(balance(_operators(flows), flows).conflicts)


def _operators(flows: Sequence[Flow]) -> list[str]:
    return list(dict.fromkeys(name for f in flows for name in (f.producer, f.consumer)))


def _block(op: Op, kind: Block) -> Iterator[Fault]:
    if not _whole(kind.pop, 1):
        yield fault(
            op,
            f"a block must take items; pop is {kind.pop!r}",
            "give pop= a whole number of 1 or more",
        )
    elif not _whole(kind.peek, kind.pop):
        yield fault(
            op,
            f"a block must see what it takes; peek is {kind.peek!r} and pop {kind.pop}",
            "give peek= a whole number that is not below pop, or leave it out",
        )
    if not _whole(kind.push, 0):
        yield fault(
            op,
            f"a block cannot give {kind.push!r} items",
            "give push= a whole number of 0 or more",
        )


def _weights(
    op: Op, weights: tuple[int, ...], branches: int, part: str
) -> Iterator[Fault]:
    if len(weights) != branches:
        yield fault(
            op,
            f"the {part} has {len(weights)} weights for {branches} branches",
            "give round_robin one weight for each branch, or one for all",
        )
    elif not all(_whole(weight, 0) for weight in weights) or not any(weights):
        yield fault(
            op,
            f"the weights of the {part} must be whole numbers of 0 or more, and not "
            f"all 0; got {list(weights)}",
            "give each branch the number of items of its turn",
        )


def _ports_read(streams: Streams) -> dict[str, int]:
    """Return how many output streams of each operator are counted on."""
    ports: dict[str, int] = {}
    for op in streams.ops:
        for stream in op.inputs:
            known = ports.get(stream.operator, 0)
            ports[stream.operator] = max(known, stream.port + 1)
    return ports


def _whole(number: object, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


def _ratio(numbers: Sequence[int]) -> str:
    return " : ".join(map(str, numbers))
