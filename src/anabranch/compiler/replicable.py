"""Whether an operator may be replicated, regardless of its neighbours, and why not.

Section 3.1 of the paper: no state or state per key, and one item at a time. The paper
also requires one input and one output stream; that is a rule that can be switched on.
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from anabranch.compiler.options import Rules, Target
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import Evidence, SinkKind, SourceKind, Trait, Traits
from anabranch.operators.blocks import Block
from anabranch.operators.clock import keeps_clock

ONE_THREAD = "runs once: the sequential engine has one thread"


class Refusal(NamedTuple):
    """Why an operator is not in a region, and the trait behind it, if any."""

    text: str
    trait: Trait | None = None


def refusal_of(
    graph: Graph,
    op: Op,
    traits: Traits,
    target: Target | None = None,
    rules: Rules | None = None,
    *,
    paired: Container[str] = (),
) -> Refusal | None:
    """Return why an operator cannot be in any region, or None.

    What is `paired` keeps nothing from one item of its origin to the next.

    >>> from anabranch.graph.kind import Kind
    >>> op = Op("count", Kind())
    >>> refusal_of(Graph((op,)), op, Traits("global"))
    Refusal(text='has one state for all items', trait='state')
    """
    target, rules = target or Target(), rules or Rules()
    why = why_not_an_end(op, traits) if target.replicas else ONE_THREAD
    if why is not None:
        return Refusal(why, "order" if evidence_of(traits, "order") else None)
    in_groups = target.aligned and is_whole_block(op, traits)
    if target.aligned and (why := why_not_ahead(op, traits)) is not None:
        return Refusal(why, "rate")
    by_ranges = target.batched and not rules.chains and is_clock(op, traits)
    by_pairs = op.name in paired and not traits.effects
    free = in_groups or by_ranges or by_pairs
    if not free and (why := why_not_by_state(traits)) is not None:
        return Refusal(why, "state")
    if (rules.chains or in_groups) and (why := why_not_one_stream(graph, op)):
        return Refusal(why)
    if not in_groups and (why := why_not_one_item(op, traits)) is not None:
        return Refusal(why, "rate")
    return None


def is_clock(op: Op, traits: Traits) -> bool:
    """Tell whether an operator's only state is the clock.

    Replicas with ranges of a stream can begin with the clock of the earlier ranges.
    """
    return keeps_clock(op) and not traits.effects


def is_whole_block(op: Op, traits: Traits) -> bool:
    """Tell whether an operator takes several items and keeps nothing between firings.

    A replica with all items of a firing needs none of another.

    >>> pairs = Op("pairs", Block(sum, pop=2, push=1, peek=2))
    >>> is_whole_block(pairs, Traits("global", pop=2))
    True
    """
    return (
        isinstance(op.kind, Block)
        and op.kind.pop == op.kind.peek > 1
        and not op.keyed_by
        and not traits.effects
    )


def why_not_ahead(op: Op, traits: Traits) -> str | None:
    """Return why an operator that peeks has one worker, or None.

    >>> mean = Op("mean", Block(sum, pop=1, push=1, peek=3))
    >>> why_not_ahead(mean, Traits("global"))
    "peeks at 3 items and takes 1: replicas would need each other's items"
    """
    kind = op.kind
    if not isinstance(kind, Block) or kind.peek == kind.pop:
        return None
    if op.keyed_by or traits.effects:
        return None
    return (
        f"peeks at {kind.peek} items and takes {kind.pop}: "
        f"replicas would need each other's items"
    )


def why_not_an_end(op: Op, traits: Traits) -> str | None:
    """Return why a source or sink cannot have several workers, or None."""
    if not isinstance(op.kind, SourceKind | SinkKind) or traits.in_parallel:
        return None
    verb = "read" if isinstance(op.kind, SourceKind) else "written"
    return f"can only be {verb} by one worker"


def why_not_by_state(traits: Traits) -> str | None:
    """Return why an operator's state cannot be divided among replicas, or None.

    A punctuation closes the state of every key, but a replica has only its own keys.
    """
    if traits.state == "global":
        found = evidence_of(traits, "state")
        return found.text if found else "has one state for all items"
    if traits.state == "keyed" and not traits.key:
        return "has state per key but no key"
    if traits.state == "keyed" and traits.expects_punctuation:
        return "a punctuation closes the states of all keys at once"
    return None


def why_not_one_stream(graph: Graph, op: Op) -> str | None:
    """Return why an operator has more than one entry or exit, or None."""
    if len(op.inputs) > 1:
        return f"combines {len(op.inputs)} streams"
    if op.kind.outputs > 1:
        return f"divides its input into {op.kind.outputs} streams"
    consumers = len(graph.out_edges(op.name))
    if consumers > 1:
        return f"feeds {consumers} streams"
    return None


def why_not_one_item(op: Op, traits: Traits) -> str | None:
    """Return why an operator needs more than the current item, or None."""
    if isinstance(op.kind, Block) and max(op.kind.pop, op.kind.peek) > 1:
        return f"takes {op.kind.pop} items at a time and peeks at {op.kind.peek}"
    if isinstance(op.kind, SourceKind | SinkKind) or traits.pop == 1:
        return None
    if traits.pop is None:
        return "takes a varying number of items at a time"
    return f"takes {traits.pop} items at a time"


def evidence_of(traits: Traits, trait: Trait) -> Evidence | None:
    """Return the first evidence of a trait, if there is any."""
    return next((e for e in traits.evidence if e.trait == trait), None)
