"""What is known about an operator, from its kind or its code, and the evidence for it.

What is known about an operator, and the evidence for it.

What cannot be proven is unsafe: an unknown function has global state, gives any number
of outputs and forwards nothing, until its author declares otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from anabranch.graph.graph import Op
from anabranch.graph.kind import Kind, SinkKind, SourceKind
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.clock import EventTime
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.iterate import Iterate
from anabranch.operators.join import Join
from anabranch.operators.lifted import StatePlace
from anabranch.operators.lookup import Lookup
from anabranch.operators.sinks import (
    ForEach,
    ToList,
    ToSpark,
    WriteFiles,
    WriteSink,
)
from anabranch.operators.sources import (
    FromIterable,
    FromSpark,
    Generate,
    Given,
    Offered,
    ReadFiles,
    ReadSource,
)
from anabranch.operators.stateless import (
    Barrier,
    Filter,
    FlatMap,
    Map,
    Merge,
    Punctuate,
    Split,
    Union,
)
from anabranch.operators.windows import Aggregate, Window

State = Literal["stateless", "keyed", "global"]
Trait = Literal["state", "rate", "forwards", "punctuation", "order"]
Cause = Literal["unseen", "kind", "writes", "input", "world", "shared"]


class Evidence(NamedTuple):
    """Why a trait was given: a phrase, and the line of the user's that it rests on.

    `cause` tells an assumption from a proof. `unseen`: the code could not be followed
    there, so the worst is assumed, and a declaration may say otherwise. All others are
    proved. `kind`: operators of this kind are like that. `writes`: the code changes
    something that outlives the call. `input`: it changes the input item. `world`: it
    depends on, or touches, the world outside. `shared`: it reads what the code of an
    operator changes.
    """

    trait: Trait
    text: str
    file: str
    line: int
    cause: Cause = "unseen"


class Push(NamedTuple):
    """How many items come out for what goes in; `most` is None if there is no bound."""

    least: int
    most: int | None

    def then(self, other: Push) -> Push:
        """Return the range of two operators in a row.

        >>> Push(0, 1).then(Push(1, None))
        Push(least=0, most=None)
        """
        bounded = self.most is not None and other.most is not None
        most = self.most * other.most if bounded else None  # type: ignore[operator]
        if 0 in (self.most, other.most):
            most = 0
        return Push(self.least * other.least, most)


@dataclass(frozen=True)
class Traits:
    """The traits of one operator.

    `pop` is how many items it takes at a time, None if that differs. `forwards` are
    the attributes that each output has unchanged from the item that caused it (for a
    window: from the items in it); None means all of them. `punctuation` is what it
    does to marks in its input, `expects_punctuation` whether it needs them.
    `in_parallel` tells whether a source can be read, or a sink written, by several
    workers at once. `effects` are those of user code that only the process it runs in
    can keep: what it changes outside its state, or reads from the world. `lifted` are the
    variables that hold its state, `not_lifted` why some that it changes do not.
    """

    state: State
    key: tuple[str, ...] = ()
    pop: int | None = 1
    push: Push = Push(1, 1)  # noqa: RUF009 - a tuple cannot be changed
    forwards: frozenset[str] | None = frozenset()
    punctuation: Literal["free", "preserving", "generating"] = "free"
    expects_punctuation: bool = False
    in_parallel: bool = False
    effects: bool = False
    evidence: tuple[Evidence, ...] = ()
    lifted: tuple[StatePlace, ...] = ()
    not_lifted: str = ""


_ONE = Push(1, 1)
_AT_MOST_ONE = Push(0, 1)
_ANY = Push(0, None)


def traits_of_kind(op: Op) -> Traits:
    """Return the traits of an operator whose code is pure and forwards nothing.

    >>> traits_of_kind(Op("all", Union())).state
    'stateless'
    """
    if op.timing is not None:
        return _clocked(op)
    rule = _RULES.get(type(op.kind))
    if rule is None:
        text = f"nothing is known about operators of kind {op.kind.label}"
        return Traits("global", push=_ANY, evidence=(why(op, "state", text),))
    return rule(op, op.kind)


def why(op: Op, trait: Trait, text: str) -> Evidence:
    """Return evidence that rests on the operator itself."""
    return Evidence(trait, text, op.site.file, op.site.line, "kind")


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


def _clocked(op: Op) -> Traits:
    """Return the traits of an operator that follows the clock of its stream."""
    text = (
        "the clock of the stream is that of all keys: what an advance closes stands in "
        "the order of time and key"
        if op.keyed_by
        else "it follows the clock of the stream, one for all items"
    )
    return _global(op, text, _ANY, punctuation="preserving", expects_punctuation=True)


def _event_time(op: Op, kind: EventTime) -> Traits:
    text = f"the clock is the highest {kind.on} so far, of all items"
    return _global(op, text, Push(0, 2), forwards=None, punctuation="generating")


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


def _lookup(op: Op, kind: Lookup) -> Traits:
    push = _ONE if kind.default else _AT_MOST_ONE
    return _stateless(op, push, punctuation="preserving")


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


def _sequential_source(op: Op, _: SourceKind) -> Traits:
    return _stateless(op, _ONE)


def _parallel_source(op: Op, _: SourceKind) -> Traits:
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
    EventTime: _event_time,
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
    Lookup: _lookup,
    Block: _block,
    FromIterable: _from_iterable,
    ReadFiles: _read_files,
    Generate: _sequential_source,
    Given: _sequential_source,
    Offered: _parallel_source,
    FromSpark: _parallel_source,
    ReadSource: _parallel_source,
    WriteSink: _epoch_sink,
    ToSpark: _epoch_sink,
    ToList: _to_list,
    ForEach: _for_each,
    WriteFiles: _write_files,
}
