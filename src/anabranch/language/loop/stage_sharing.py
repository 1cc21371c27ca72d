"""Refuse loops whose stages reach one another through an object, not a variable.

Stages run at the same time, each on an item of its own. If one may change an object that
another one looks at, then what that one sees depends on which is ahead.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Mapping, Sequence

from anabranch.errors import LoopError
from anabranch.graph.graph import Graph
from anabranch.python.analyze import learn, roots_of
from anabranch.python.interpret import follow
from anabranch.python.objects import CALLABLES, is_scalar
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ELEMENTS,
    Arguments,
    Effect,
    Findings,
    Fresh,
    Heap,
    Known,
    Read,
    Value,
)

MOST_VARIABLES = 32  # that go from stage to stage and are looked at


def why_shared(graph: Graph, operators: Sequence[str]) -> LoopError | None:
    """Return why some operators, the parts of a loop, cannot run at the same time."""
    findings = learn(graph).findings
    found = {name: findings.get(name, ()) for name in operators}
    for changing, looking in itertools.permutations(operators, 2):
        effect = _effect(found[changing])
        if effect is None:
            continue
        read = _common(found[changing], found[looking]) or _rebound(
            found[changing], found[looking]
        )
        if read is not None:
            return LoopError(
                f"{read.file}:{read.line}: {looking} uses {read.name}, which {changing} "
                f"may change ({effect.file}:{effect.line}: {effect.text}): they run at "
                "the same time; keep what uses it in one stage, or say replicate=True "
                "of the stage that does not change anything"
            )
    return None


def why_given_again(graph: Graph, source: str) -> LoopError | None:
    """Return why what a source gives may change while a stage still works on it.

    Code that gives the same object in every turn, and changes it in between, may do so
    in a loop, where a turn is over before the next one begins; not in a stream.
    """
    (code,) = graph[source].kind.user_code
    found, value = follow(Universe(roots_of(graph)), code.function, Arguments())
    effect = _effect([found])
    if effect is None:
        return None
    for root in _inside(found.heap, _inside(found.heap, value)):
        if not isinstance(root, Known) or is_scalar(root.obj):
            continue
        if isinstance(root.obj, (*CALLABLES, types.ModuleType, type)):
            continue
        site = graph[source].site
        return LoopError(
            f"{site}: {source} gives {root.text} again in every turn, and may change it "
            f"({effect.file}:{effect.line}: {effect.text}) while a stage still works "
            "on it; give a copy of it"
        )
    return None


def _inside(heap: Heap, value: Value) -> Value:
    """Return what a value is, and what lies in the objects that were made here."""
    found = set(value)
    for root in value:
        if isinstance(root, Fresh):
            for place in (ELEMENTS, *(f"[{n}]" for n in range(MOST_VARIABLES))):
                found |= heap.get(root.site, place)
    return frozenset(found)


def _effect(found: Sequence[Findings]) -> Effect | None:
    """Return what may change an object, if anything; what is only impure does not."""
    effects = [effect for one in found for effect in one.effects]
    kinds = ("changes", "unknown")
    return min(
        (effect for effect in effects if effect.kind in kinds),
        key=lambda effect: (kinds.index(effect.kind), effect.line),
        default=None,
    )


def _common(one: Sequence[Findings], other: Sequence[Findings]) -> Read | None:
    """Return an object that both look at and that could be changed."""
    ours = {target for findings in one for target in _find_touched(findings)}
    for findings in other:
        for target, read in _find_touched(findings).items():
            if target in ours:
                return read
    return None


def _find_touched(found: Findings) -> Mapping[int, Read]:
    return {
        target: read
        for target, read in found.touched.items()
        if not is_scalar(read.target)
        and not isinstance(read.target, (*CALLABLES, types.ModuleType, type))
    }


def _rebound(one: Sequence[Findings], other: Sequence[Findings]) -> Read | None:
    """Return a name that `other` reads and a function of `one` assigns."""
    assigned = {place for findings in one for place in findings.rebinds}
    for findings in other:
        for (name, scope, _), read in findings.reads.items():
            if (name, scope) in assigned:
                return read
    return None
