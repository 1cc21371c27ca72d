"""Checks of fixed rates, balanced split-joins and terminating rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from anabranch.errors import Fault
from anabranch.graph.graph import Op
from anabranch.graph.types import may_be, type_name
from anabranch.language.checks.structure import Streams, fault
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.fan_in import Barrier
from anabranch.operators.iterate import Iterate
from anabranch.operators.rates import FixedStream, balance, rates_of
from anabranch.operators.sources import Given
from anabranch.operators.stateless import Split


def rates(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each invalid rate, weight or number of branches."""
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
        return  # invalid rates are no reason for a second complaint
    everything = _flows(streams.ops, streams)
    if not _is_unbalanced(everything) and not _is_starved(joiners, everything):
        return
    for op in joiners:
        yield from _joiner(op, streams)


def _joiner(op: Op, streams: Streams) -> Iterator[Fault]:
    assert isinstance(op.kind, Collect)  # noqa: S101
    flows = _flows(_upstream(op, streams), streams)
    before = [flow for flow in flows if flow.consumer != op.name]
    own = [flow for flow in flows if flow.consumer == op.name]
    if _is_unbalanced(before) or len(own) != len(op.inputs):
        return  # a joiner further up has the fault, or some rate is unknown
    if not _is_unbalanced(flows) and not _is_starved([op], flows):
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


def _is_starved(joiners: Sequence[Op], flows: Sequence[FixedStream]) -> bool:
    """Tell whether a joiner waits for a branch that gives nothing, or the reverse."""
    names = {op.name for op in joiners}
    silent = _silent(flows)
    return any((f in silent) != (f.pop == 0) for f in flows if f.consumer in names)


def _silent(flows: Sequence[FixedStream]) -> set[FixedStream]:
    """Return the streams that never carry an item; `flows` has producers first."""
    idle: set[str] = set()
    silent = set()
    for flow in flows:
        if flow.push == 0 or flow.producer in idle:
            silent.add(flow)
            if flow.pop:
                idle.add(flow.consumer)
    return silent


def _flows(ops: Sequence[Op], streams: Streams) -> list[FixedStream]:
    """Return the streams into operators of fixed rates.

    An operator's output at an unknown rate still reaches all consumers of a stream
    alike: the stream itself stands for it.
    """
    flows = []
    for op in ops:
        taken = _find_fixed_rates(op)
        for port, stream in enumerate(op.inputs if taken else ()):
            producer = streams.producer(stream)
            given = None if producer is None else _find_fixed_rates(producer)
            assert taken is not None  # noqa: S101
            if given is None or stream.port >= len(given[1]):
                name, push = f"{stream.operator}[{stream.port}]", 1
            else:
                name, push = stream.operator, given[1][stream.port]
            flows.append(FixedStream(name, push, op.name, taken[0][port]))
    return flows


def _find_fixed_rates(op: Op) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return an operator's rates; a barrier may wait for its streams."""
    found = None if isinstance(op.kind, Barrier) else rates_of(op)
    if found is None or len(found.pops) != len(op.inputs):
        return None
    return found.pops, found.pushes


def _upstream(op: Op, streams: Streams) -> list[Op]:
    """Return an operator and its producers, as far as rates are fixed."""
    found = {op.name: op}
    waiting = [op]
    for at in waiting:  # grows during iteration
        for stream in at.inputs:
            producer = streams.producer(stream)
            if (
                producer is None
                or producer.name in found
                or _find_fixed_rates(producer) is None
            ):
                continue
            found[producer.name] = producer
            waiting.append(producer)
    return [op for op in streams.ops if op.name in found]


def _is_unbalanced(flows: Sequence[FixedStream]) -> bool:
    return bool(balance(_operators(flows), flows).conflicts)


def _operators(flows: Sequence[FixedStream]) -> list[str]:
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
    """Return how many output streams of each operator are read."""
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


def rounds(streams: Streams) -> Iterator[Fault]:
    """Yield the faults of each iterate, apart from those inside its body."""
    for op in streams.ops:
        if isinstance(op.kind, Iterate):
            yield from _ends(op, op.kind)
            yield from _body(op, op.kind, streams)


def strays(streams: Streams) -> Iterator[Fault]:
    """Yield a fault if the stream inside an iterate is used outside it."""
    for op in streams.ops:
        if isinstance(op.kind, Given):
            yield fault(
                op,
                "the stream inside an iterate is used outside of it",
                "use only what iterate returns",
            )


def _ends(op: Op, kind: Iterate) -> Iterator[Fault]:
    if kind.rounds is None and kind.until is None:
        yield fault(
            op,
            "iterate must end; it has neither rounds nor until",
            "give rounds=, the number of rounds, or until=, when to stop",
        )
    elif kind.rounds is not None and (
        not isinstance(kind.rounds, int) or kind.rounds < 1
    ):
        yield fault(
            op,
            f"rounds must be a whole number of 1 or more; got {kind.rounds!r}",
            "give rounds= a positive number, or leave the iterate out",
        )


def _body(op: Op, kind: Iterate, streams: Streams) -> Iterator[Fault]:
    sources = kind.body.sources
    given = [source for source in sources if isinstance(source.kind, Given)]
    if len(sources) != 1 or not given:
        others = [source for source in sources if source not in given[:1]]
        read = ", ".join(f"{other.name!r} ({other.site})" for other in others)
        yield fault(
            op,
            "the body of iterate must make its stream from the one it is given, and "
            f"from that alone; it reads {read or 'nothing'}",
            "bring other streams in before the iterate",
        )
    taken, made = streams.item_type(op), op.type
    if kind.rounds != 1 and not may_be(made, taken):
        yield fault(
            op,
            f"a round takes {type_name(taken)} but gives {type_name(made)}, which "
            f"the next round cannot take",
            "let the body give what it takes, and map behind the iterate",
        )
