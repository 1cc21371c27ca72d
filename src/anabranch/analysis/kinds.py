"""What the kind of an operator says about it, whatever the user's code does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.analysis.traits import Evidence, Push, State, Trait, Traits
from anabranch.graph.blocks import Block, Collect, Deal
from anabranch.graph.custom import Apply, Scan
from anabranch.graph.graph import Op
from anabranch.graph.iterate import Iterate
from anabranch.graph.joins import Join
from anabranch.graph.kinds import (
    Barrier,
    Filter,
    FlatMap,
    Kind,
    Map,
    Merge,
    Punctuate,
    Split,
    Union,
)
from anabranch.graph.sinks import (
    ForEach,
    SinkKind,
    ToKafka,
    ToList,
    ToSocket,
    ToSpark,
    WriteFiles,
    WritePostgres,
)
from anabranch.graph.sources import (
    FromIterable,
    FromSpark,
    Generate,
    Given,
    Kafka,
    Offered,
    ReadFiles,
    ReadPostgres,
    Socket,
    Source,
)
from anabranch.graph.windows import Aggregate, Window

_ONE = Push(1, 1)
_AT_MOST_ONE = Push(0, 1)
_ANY = Push(0, None)


def traits_of_kind(op: Op) -> Traits:
    """Return the traits of an operator whose code is pure and forwards nothing.

    >>> traits_of_kind(Op("all", Union())).state
    'stateless'
    """
    rule = _RULES.get(type(op.kind))
    if rule is None:
        text = f"nothing is known about operators of kind {op.kind.label}"
        return Traits("global", push=_ANY, evidence=(why(op, "state", text),))
    return rule(op, op.kind)


def why(op: Op, trait: Trait, text: str) -> Evidence:
    """Return evidence that rests on the operator itself."""
    return Evidence(trait, text, op.site.file, op.site.line)


def _stateless(op: Op, push: Push, **others: Any) -> Traits:
    text = f"{op.kind.label} keeps nothing from one item to the next"
    return Traits("stateless", push=push, evidence=(why(op, "state", text),), **others)


def _global(op: Op, text: str, push: Push, **others: Any) -> Traits:
    return Traits("global", push=push, evidence=(why(op, "state", text),), **others)


def _kept_apart(op: Op, what: str, push: Push, **others: Any) -> Traits:
    """Return the traits of an operator with state: per key, or one in all."""
    key = op.state_key
    state: State = "keyed" if key else "global"
    text = (
        f"{what} per {', '.join(key)}" if key else f"{what}, one for the whole stream"
    )
    return Traits(
        state, key=key, push=push, evidence=(why(op, "state", text),), **others
    )


def _map(op: Op, _: Map) -> Traits:
    return _stateless(op, _ONE, punctuation="preserving")


def _filter(op: Op, _: Filter) -> Traits:
    return _stateless(op, _AT_MOST_ONE, forwards=None, punctuation="preserving")


def _flat_map(op: Op, _: FlatMap) -> Traits:
    return _stateless(op, _ANY, punctuation="preserving")


def _punctuate(op: Op, _: Punctuate) -> Traits:
    return _stateless(op, Push(1, 2), forwards=None, punctuation="generating")


def _split(op: Op, kind: Split) -> Traits:
    push = Push(0, kind.branches)
    return _stateless(op, push, forwards=None, punctuation="preserving")


def _union(op: Op, _: Union) -> Traits:
    return _stateless(op, _ONE, forwards=None)


def _merge(op: Op, kind: Merge) -> Traits:
    text = f"merge holds items back until those with a lower {kind.by} have come"
    return _global(op, text, _ANY, forwards=None)


def _barrier(op: Op, _: Barrier) -> Traits:
    text = "barrier holds items back until every stream has one"
    return _global(op, text, _AT_MOST_ONE)


def _collect(op: Op, _: Collect) -> Traits:
    return _global(op, "a joiner takes the branches in turn", _ANY, forwards=None)


def _deal(op: Op, _: Deal) -> Traits:
    return _global(op, "a splitter counts whose turn it is", _ONE, forwards=None)


def _iterate(op: Op, _: Iterate) -> Traits:
    return _global(op, "iterate gathers items for its rounds", _ANY)


def _scan(op: Op, _: Scan) -> Traits:
    return _kept_apart(op, "scan carries a state along", _ONE, punctuation="preserving")


def _apply(op: Op, kind: Apply) -> Traits:
    name = kind.operator.__name__
    if op.state_key and kind.overrides("punctuation"):
        text = (
            f"{name}.punctuation() may give results of several keys at one "
            "punctuation, which stand in the order of the keys"
        )
        return _global(op, text, _ANY, punctuation="preserving")
    what = f"{name} has its attributes as state"
    return _kept_apart(op, what, _ANY, punctuation="preserving")


def _aggregate(op: Op, kind: Aggregate) -> Traits:
    window = kind.window
    push, expects = _push_of_window(window), window.punctuation
    if op.state_key and window.punctuation:
        text = (
            "a punctuation closes the windows of several keys at once, and their "
            "results stand in the order of the keys"
        )
        return _global(op, text, push, expects_punctuation=True)
    what = f"the window ({window.text}) is kept"
    return _kept_apart(op, what, push, expects_punctuation=expects)


def _push_of_window(window: Window) -> Push:
    slides_in_time = window.time is not None and window.every is not None
    return _ANY if window.punctuation or slides_in_time else _AT_MOST_ONE


def _join(op: Op, _: Join) -> Traits:
    return _kept_apart(op, "the windows of a join are kept", _ANY)


def _block(op: Op, kind: Block) -> Traits:
    push = Push(kind.push, kind.push)
    if kind.pop == kind.peek == 1:
        return _stateless(op, push, pop=1)
    return _kept_apart(op, "a block buffers items", push, pop=kind.pop)


def _from_iterable(op: Op, kind: FromIterable) -> Traits:
    sliceable = isinstance(kind.items, list | tuple | range)
    return _stateless(op, _ONE, in_parallel=sliceable)


def _read_files(op: Op, kind: ReadFiles) -> Traits:
    return _stateless(op, _ONE, in_parallel=not kind.path.endswith(".gz"))


def _sequential_source(op: Op, _: Source) -> Traits:
    return _stateless(op, _ONE)


def _parallel_source(op: Op, _: Source) -> Traits:
    return _stateless(op, _ONE, in_parallel=True)


def _epoch_sink(op: Op, kind: SinkKind) -> Traits:
    text = f"{kind.label} takes the items of an epoch in order, at one place"
    return _global(op, text, Push(0, 0))


def _to_list(op: Op, _: ToList) -> Traits:
    return _stateless(op, Push(0, 0))


def _for_each(op: Op, _: ForEach) -> Traits:
    text = "for_each calls its function in order, in the process of the caller"
    return _global(op, text, Push(0, 0))


def _write_files(op: Op, kind: WriteFiles) -> Traits:
    return _stateless(op, Push(0, 0), in_parallel=not kind.single)


_RULES: dict[type[Kind], Callable[[Op, Any], Traits]] = {
    Map: _map,
    Filter: _filter,
    FlatMap: _flat_map,
    Punctuate: _punctuate,
    Split: _split,
    Union: _union,
    Merge: _merge,
    Barrier: _barrier,
    Collect: _collect,
    Deal: _deal,
    Iterate: _iterate,
    Scan: _scan,
    Apply: _apply,
    Aggregate: _aggregate,
    Join: _join,
    Block: _block,
    FromIterable: _from_iterable,
    ReadFiles: _read_files,
    Generate: _sequential_source,
    Given: _sequential_source,
    Socket: _parallel_source,
    Kafka: _parallel_source,
    Offered: _parallel_source,
    FromSpark: _parallel_source,
    ReadPostgres: _sequential_source,
    ToSocket: _epoch_sink,
    ToKafka: _epoch_sink,
    WritePostgres: _epoch_sink,
    ToSpark: _epoch_sink,
    ToList: _to_list,
    ForEach: _for_each,
    WriteFiles: _write_files,
}
