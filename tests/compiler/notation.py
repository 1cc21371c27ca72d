"""Programs with traits, as text: `src -> a -> b[key=k, push=0..1] -> sink`.

Statements are separated by `;` or a new line. What has no producer is a source, what
has no consumer is a sink, everything else forwards all attributes and has no state
unless its brackets say otherwise (on its first mention):

    global              one state for all items
    key=k+l             state per key
    push=0..1, push=2   outputs for each item; `*` for no bound
    pop=2, pop=*        items at a time
    forwards=k+l        nothing else is forwarded; `forwards=` for nothing at all
    marks, free         makes punctuations; removes them (others pass them on)
    expects             acts on punctuations
    parallel            a source or sink for several workers
    unordered           a sink that takes its items in any order
    fuse=a              must be fused with a
    block=2>1 peek 3    a block of fixed rates
    deal=1+2, collect=1+2, barrier, split=2   kinds; `s.1 -> x` is output 1
"""

from __future__ import annotations

import re
from dataclasses import replace

from anabranch.graph.graph import Graph, Op, Output
from anabranch.graph.kind import Evidence, Kind, Push, SinkKind, SourceKind, Traits
from anabranch.graph.site import Site
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.fan_in import Barrier, Union
from anabranch.operators.sinks import ToList
from anabranch.operators.stateless import FlatMap, Map, Split

_TERM = re.compile(r"\s*(\w+)(?:\.(\d+))?\s*(?:\[([^\]]*)\])?\s*")


def program(text: str) -> tuple[Graph, dict[str, Traits]]:
    """Return the graph and the traits that a text describes."""
    options: dict[str, dict[str, str]] = {}
    inputs: dict[str, list[Output]] = {}
    feeding: set[str] = set()
    for statement in re.split(r"[;\n]", text):
        before: Output | None = None
        for term in filter(str.strip, statement.split("->")):
            match = _TERM.fullmatch(term)
            assert match, f"cannot read {term!r}"
            name, port, given = match.groups()
            options.setdefault(name, {}).update(_options(given or ""))
            inputs.setdefault(name, [])
            if before is not None:
                inputs[name].append(before)
                feeding.add(before.operator)
            before = Output(name, int(port or 0))
    ops = {
        name: Op(
            name,
            _kind(options[name], len(inputs[name]), name in feeding),
            tuple(inputs[name]),
            tuple(filter(None, options[name].get("key", "").split("+"))),
            None,
            Site("job.py", line),
            options[name].get("fuse"),
        )
        for line, name in enumerate(options, start=1)
    }
    graph = Graph(tuple(_producers_first(ops)))
    return graph, {op.name: _traits(op, options[op.name]) for op in graph}


def _options(text: str) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in text.split(",") if part.strip())
    return {name: value for name, _, value in pairs}


def _kind(options: dict[str, str], inputs: int, feeds: bool) -> Kind:  # noqa: PLR0911 - one line per kind
    if "split" in options:
        return Split(hash, int(options["split"]))
    if "deal" in options:
        return Deal(_numbers(options["deal"]))
    if "collect" in options:
        return Collect(_numbers(options["collect"]))
    if "barrier" in options:
        return Barrier()
    if "block" in options:
        pop, push, peek = re.fullmatch(
            r"(\d+)>(\d+)(?: peek (\d+))?", options["block"]
        ).groups()
        return Block(list, int(pop), int(push), int(peek or pop))
    if inputs > 1:
        return Union()
    if inputs == 0:
        return SourceKind()
    if not feeds:
        return ToList(unordered=True) if "unordered" in options else SinkKind()
    return FlatMap(list) if {"push", "pop"} & set(options) else Map(abs)


def _traits(op: Op, options: dict[str, str]) -> Traits:
    state = "global" if "global" in options else "keyed" if op.key else "stateless"
    forwards = options.get("forwards")
    marks = "generating" if "marks" in options else "preserving"
    least, _, most = options.get("push", "1").partition("..")
    pop = _number(options.get("pop", "1"))
    if isinstance(op.kind, Block):
        pop, least, most = op.kind.pop, op.kind.push, ""
    traits = Traits(
        state,
        key=op.key,
        pop=pop,
        push=Push(int(least), _number(most or str(least))),
        forwards=None if forwards is None else frozenset(forwards.split("+")) - {""},
        punctuation="free" if "free" in options else marks,
        expects_punctuation="expects" in options,
        in_parallel="parallel" in options,
        unordered="unordered" in options,
    )
    if state == "global":
        evidence = Evidence("state", f"{op.name} counts", "job.py", op.site.line)
        return replace(traits, evidence=(evidence,))
    return traits


def _producers_first(ops: dict[str, Op]) -> list[Op]:
    placed: dict[str, Op] = {}
    while len(placed) < len(ops):
        for name, op in ops.items():
            if name not in placed and all(i.operator in placed for i in op.inputs):
                placed[name] = op
                break
        else:
            msg = "the program has a cycle"
            raise AssertionError(msg)
    return list(placed.values())


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split("+"))


def _number(text: str) -> int | None:
    return None if text == "*" else int(text)
