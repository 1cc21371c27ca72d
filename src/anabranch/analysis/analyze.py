"""The traits of every operator of a program, with the evidence for each.

The kind of an operator says most. What the user's code adds, it can only take away: code
that is not provably free of state of its own makes an operator global, on a keyed
stream too, since no key keeps that state apart.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FunctionType, MethodType
from typing import Any

from anabranch.analysis.effects import Effect, Findings, Place
from anabranch.analysis.kinds import traits_of_kind, why
from anabranch.analysis.objects import is_scalar
from anabranch.analysis.outputs import forwards_of, push_of
from anabranch.analysis.state import (
    Code,
    Verdicts,
    findings_of_function,
    findings_of_operator,
    findings_of_scan,
)
from anabranch.analysis.traits import Evidence, Push, Trait, Traits
from anabranch.analysis.universe import Universe
from anabranch.graph.blocks import Block
from anabranch.graph.custom import Apply, Scan
from anabranch.graph.declarations import declaration_of
from anabranch.graph.graph import Graph, Op
from anabranch.graph.iterate import Iterate
from anabranch.graph.kinds import FlatMap
from anabranch.graph.sinks import SinkKind
from anabranch.graph.sources import FromIterable, Source
from anabranch.graph.types import parameter_type
from anabranch.graph.windows import Aggregate


def analyze(graph: Graph) -> Mapping[str, Traits]:
    """Return the traits of every operator.

    >>> import anabranch as ab
    >>> from anabranch.graph.drafts import build_graph
    >>> numbers = ab.from_iterable([1, 2])
    >>> graph = build_graph([numbers.map(abs).scan(lambda s, n: (s, n), 0).to_list()])
    >>> {name: traits.state for name, traits in analyze(graph).items()}
    {'from_iterable': 'stateless', 'map': 'stateless', 'scan': 'global', 'to_list': 'stateless'}
    """
    verdicts = learn(graph)
    return {op.name: _traits(graph, op, verdicts.why_not_pure(op.name)) for op in graph}


def learn(graph: Graph) -> Verdicts:
    """Return what the code of all operators does, weighed together."""
    universe = Universe(roots_of(graph))
    learner = _Learner(universe)
    return Verdicts(universe, {op.name: learner.about(graph, op) for op in graph})


def roots_of(graph: Graph) -> Iterator[Any]:
    """Yield whatever leads to the modules of a program."""
    for op in graph:
        yield op.type
        for code in op.kind.user_code:
            function: Any = code.function
            while isinstance(function, functools.partial):
                yield from (*function.args, *function.keywords.values())
                function = function.func
            if isinstance(function, MethodType):
                yield function.__self__
                function = function.__func__
            if isinstance(function, functools._lru_cache_wrapper):  # noqa: SLF001
                function = function.__wrapped__
            yield function
            yield from _cells(function)
        if isinstance(op.kind, FromIterable) and isinstance(
            op.kind.items, list | tuple
        ):
            yield from {type(item) for item in op.kind.items}
        if isinstance(op.kind, Iterate):
            yield from roots_of(op.kind.body)


def _cells(function: Any) -> Iterator[Any]:
    if not isinstance(function, FunctionType):
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue


class _Learner:
    """Finds out what the code of operators does, each function once."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self._known: dict[Any, Findings] = {}

    def about(self, graph: Graph, op: Op) -> list[Findings]:
        """Return the findings about all code of an operator."""
        try:
            return self._about(graph, op)
        except RecursionError:
            found = Findings()
            place = Place(op.site.file, op.site.line)
            found.effect("unknown", "the code is nested too deeply to follow", place)
            return [found]

    def _about(self, graph: Graph, op: Op) -> list[Findings]:
        item = _item_type(graph, op)
        match op.kind:
            case Scan(step=step):
                item = item or parameter_type(step, 1)
                return [findings_of_scan(self.universe, op.kind, item)]
            case Apply(operator=cls):
                if declaration_of(cls).state == "stateless":
                    return []
                item = item or parameter_type(cls.process, 1)
                return [findings_of_operator(self.universe, op.kind, item)]
            case Iterate(body=body, until=until):
                found = [each for inner in body for each in self.about(body, inner)]
                ends = [] if until is None else [self._function(Code(until, (list,)))]
                return [*found, *ends]
        return [self._function(code) for code in _codes(graph, op, item)]

    def _function(self, code: Code) -> Findings:
        key = (*_identity(code.function), code.types, code.by_name)
        if key not in self._known:
            self._known[key] = findings_of_function(self.universe, code)
        return self._known[key]


def _identity(function: Any) -> tuple[Any, ...]:
    """Return what tells functions apart: not which numbers they have captured."""
    if not isinstance(function, FunctionType) or vars(function):
        return (id(function),)
    captured = [*_cells(function), *(function.__defaults__ or ())]
    captured += (function.__kwdefaults__ or {}).values()
    seen = tuple(id(type(v)) if is_scalar(v) else id(v) for v in captured)
    code = function.__code__
    return (code, code.co_filename, id(function.__globals__), seen, len(captured))


def _codes(graph: Graph, op: Op, item: Any) -> Iterator[Code]:
    """Yield the functions of an operator with the types that they are called with."""
    for role, function in op.kind.user_code:
        types: tuple[Any, ...] = (item or parameter_type(function, 0),)
        if isinstance(op.kind, Aggregate | Block):
            types = (list if item is None else list[item],)
        elif len(op.inputs) > 1:
            types = tuple(graph[each.operator].type for each in op.inputs)
        elif role == "factory":
            types = ()
        yield Code(function, types)
    if isinstance(op.kind, Aggregate) and op.kind.into is not None:
        yield Code(op.kind.into, (), by_name=True)


def _item_type(graph: Graph, op: Op) -> Any:
    """Return the tuple type of the items that an operator takes, where it is known."""
    if len(op.inputs) != 1 or op.inputs[0].operator not in graph:
        return None
    return graph[op.inputs[0].operator].type


def _traits(graph: Graph, op: Op, effect: Effect | None) -> Traits:
    traits = _with_outputs(op, traits_of_kind(op), _item_type(graph, op))
    if isinstance(op.kind, Source | SinkKind):
        return traits
    traits = _with_declarations(op, traits)
    if effect is not None:
        return _made_global(traits, effect)
    return traits


def _with_outputs(op: Op, traits: Traits, item: Any) -> Traits:
    """Add what the code says about outputs to what the kind says."""
    rated = push_of(op)
    if rated is not None:
        traits = replace(
            traits, push=rated.push, evidence=(*traits.evidence, rated.evidence)
        )
    kept = forwards_of(op, item)
    if kept is not None:
        traits = replace(
            traits, forwards=kept.attributes, evidence=(*traits.evidence, kept.evidence)
        )
    return traits


def _with_declarations(op: Op, traits: Traits) -> Traits:
    """Believe the author: what is declared stands in for what was found."""
    code = op.kind.user_code
    declared = declaration_of(code[0].function if code else None)
    if declared.push is not None and isinstance(op.kind, Apply | FlatMap):
        text = f"is declared to give {declared.push} outputs for an item"
        traits = _stating(op, replace(traits, push=Push(*declared.push)), "rate", text)
    if declared.forwards is not None and traits.forwards is not None:
        kept = traits.forwards | declared.forwards
        text = f"is declared to forward {', '.join(sorted(declared.forwards))}"
        traits = _stating(op, replace(traits, forwards=kept), "forwards", text)
    if declared.state == "global":
        text = "is declared to have state"
        made = replace(traits, state="global", key=(), effects=True)
        return _stating(op, made, "state", text)
    if isinstance(op.kind, Apply) and declared.state == "stateless":
        if op.kind.overrides("punctuation") or op.kind.overrides("finish"):
            return traits  # what one instance gives at the end, many would give
        text = "is declared to be stateless"
        return _stating(op, replace(traits, state="stateless", key=()), "state", text)
    return traits


def _stating(op: Op, traits: Traits, trait: Trait, text: str) -> Traits:
    """Replace the evidence for one trait."""
    others = tuple(each for each in traits.evidence if each.trait != trait)
    return replace(traits, evidence=(why(op, trait, text), *others))


def _made_global(traits: Traits, effect: Effect) -> Traits:
    """Return the traits of an operator whose code is not provably pure."""
    text = effect.text
    if effect.kind == "unknown" and "declare" not in text:
        text += '; say @ab.declare(state="stateless") if that does not matter'
    found = Evidence("state", text, effect.file, effect.line)
    others = tuple(each for each in traits.evidence if each.trait != "state")
    return replace(
        traits, state="global", key=(), effects=True, evidence=(found, *others)
    )
