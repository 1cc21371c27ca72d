"""The traits of every operator of a program, with the evidence for each.

An operator's kind determines most of its traits. User code can only weaken them: if it
is not provably free of hidden state, the operator becomes global, on a keyed stream
too, because no key separates that state.
"""

from __future__ import annotations

import collections
import functools
import gc
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MappingView,
)
from dataclasses import replace
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, NamedTuple

from anabranch.errors import Fault, GraphError
from anabranch.graph.declarations import declaration_of
from anabranch.graph.graph import Graph, Op, descendants
from anabranch.graph.kind import (
    ANY,
    Cause,
    Evidence,
    Kind,
    Push,
    SinkKind,
    SourceKind,
    Trait,
    Traits,
    keep_one_state,
    why,
)
from anabranch.graph.types import fields_of, parameter_type
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.clock import EventTime, InOrder
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.fan_in import Barrier, Merge, Union
from anabranch.operators.iterate import Iterate
from anabranch.operators.join import Join, Lookup
from anabranch.operators.sinks import SinkPart, WriteSink
from anabranch.operators.sources import FromIterable, Generate, ReadSource
from anabranch.operators.stateless import (
    Filter,
    FlatMap,
    Map,
    Punctuate,
    Split,
    describe_function,
)
from anabranch.operators.windows import Aggregate
from anabranch.python.arrivals import (
    ANYTHING,
    NOBODY,
    SOMETHING,
    Arrival,
    arrival_of,
    find_held,
    look_into,
)
from anabranch.python.forwards import forwards_of
from anabranch.python.lifted_state import find_lift
from anabranch.python.objects import (
    CALLABLES,
    arrays_in,
    is_instance_of_users,
    is_scalar,
    is_scalar_type,
    is_users_code,
)
from anabranch.python.purity import (
    Code,
    Use,
    find_own_write,
    findings_of_construction,
    findings_of_function,
    findings_of_items,
    findings_of_operator,
    findings_of_pickling,
    findings_of_readings,
    findings_of_scan,
)
from anabranch.python.rates import push_of
from anabranch.python.sharing import (
    ATTRIBUTE,
    Sharing,
    Verdicts,
    find_identity,
    spread_changes,
)
from anabranch.python.universe import Universe
from anabranch.python.values import CHANGES_INPUT, Effect, Findings, Place

ON_ERROR = "on_error"  # stands for the function that takes failures
_USES: Mapping[str, Use] = {
    **dict.fromkeys(("predicate", "when", "match"), "truth"),
    "factory": "each",
    "route": "several",
}


_PLAIN: tuple[Iterable[Any], ...] = ([], (), {}, {}.values(), {}.items(), "", range(1))
_PLAIN_ITERATORS = frozenset(type(iter(each)) for each in _PLAIN)
# The methods of a user's source or sink that engines call, with argument types and use.
_CALLS_OF_SOURCES: Mapping[str, tuple[tuple[Any, ...], Use]] = {
    "partitions": ((), "each"),
    "read": ((str, None), "each"),
    "has_ended": ((), "truth"),
    "born_s": ((None,), "value"),
    "close": ((), "value"),
}
_CALLS_OF_SINKS: Mapping[str, tuple[tuple[Any, ...], Use]] = {
    "open": ((str, None), "value"),
    "write": ((list,), "several"),
    **dict.fromkeys(("prepare", "commit", "abort"), ((int,), "value")),
    "write_part": ((SinkPart, list), "value"),
    "commit_parts": ((int, list), "value"),
    "close": ((), "value"),
}


def analyze(graph: Graph) -> Mapping[str, Traits]:
    """Return the traits of every operator.

    >>> import anabranch as ab
    >>> from anabranch.language.drafts import build_graph
    >>> numbers = ab.from_iterable([1, 2])
    >>> graph = build_graph([numbers.map(abs).scan(lambda s, n: (s, n), 0).to_list()])
    >>> {name: traits.state for name, traits in analyze(graph).items()}
    {'from_iterable': 'stateless', 'map': 'stateless', 'scan': 'global', 'to_list': 'stateless'}
    """
    return analyze_program(graph).traits


class Analysis(NamedTuple):
    """The traits of every operator, the state that parts of the program share, and the
    parts that ask for the identity of what they are given.
    """

    traits: Mapping[str, Traits]
    sharing: tuple[Sharing, ...] = ()
    identity: Mapping[str, Effect] = MappingProxyType({})  # parts that need no copies


def analyze_program(
    graph: Graph, on_error: Callable[..., Any] | None = None
) -> Analysis:
    """Analyze a program; `on_error`, if any, is the function that receives its
    failures.
    """
    verdicts = learn(graph, on_error)
    traits = {
        op.name: _traits(
            graph,
            op,
            verdicts.why_not_pure(op.name),
            keeps_nothing=any(f.keeps_nothing for f in verdicts.findings[op.name]),
        )
        for op in graph
    }
    for name in _find_copied(graph, verdicts.findings):
        traits[name] = replace(traits[name], copied=True)
    for op in graph:
        if _has_state_of_its_own(op, traits[op.name]):
            lift = find_lift(op, verdicts.findings[op.name], verdicts.sharing)
            traits[op.name] = replace(
                traits[op.name], lifted=lift.places, not_lifted=lift.why_not
            )
    identity = find_identity(graph, verdicts.findings)
    return Analysis(traits, verdicts.sharing, identity)


def _find_copied(graph: Graph, found: Mapping[str, list[Findings]]) -> Iterator[str]:
    """Yield the operators whose outputs must be copied to stay as they were given.

    They keep an output and change it later, or another operator changes it. What is
    declared to hold only scalars cannot change.
    """
    for op in graph:
        if not _can_change(arrival_by_annotation(op.type)):
            continue
        if isinstance(op.kind, FromIterable):
            if is_instance_of_users(op.kind.items):
                yield op.name
        elif isinstance(op.kind, Map):
            if any(one.changes_shared for one in found[op.name]):
                yield op.name
        elif isinstance(op.kind, Scan | Apply | FlatMap | Generate | ReadSource) and (
            any(one.changes_given for one in found[op.name])
            or (
                any(one.keeps_given for one in found[op.name])
                and any(
                    _changes_items(one)
                    for name in descendants(graph, op.name)
                    for one in found[name]
                )
            )
        ):
            yield op.name


def _has_state_of_its_own(op: Op, traits: Traits) -> bool:
    """Tell whether an operator's code is proved to change something that outlives the
    call.
    """
    if not traits.effects or isinstance(op.kind, SourceKind | SinkKind):
        return False
    return any(
        one.trait == "state" and one.cause == "writes" for one in traits.evidence
    )


def learn(graph: Graph, on_error: Callable[..., Any] | None = None) -> Verdicts:
    """Return the findings about the code of all operators, judged together."""
    offered = {
        op.name: arrival_from_source(op.kind, op.type)
        for op in graph
        if isinstance(op.kind, SourceKind)
    }
    arriving = (kind for each in offered.values() for kind in each.types)
    universe = Universe([*roots_of(graph), *roots_of_function(on_error), *arriving])
    learner = _Learner(universe)
    found: dict[str, list[Findings]] = {}
    given: dict[str, Arrival] = {}
    for op in graph:  # producers first
        arrival = offered.get(op.name) or arriving_at(graph, op, given)
        alone = isinstance(op.kind, _ONE_BY_ONE)
        faced = arrival._replace(twins=arrival.twins and not alone)
        found[op.name] = learner.about(graph, op, faced)
        given[op.name] = departing_from(op, arrival, found[op.name])
    blame_givers(graph, found, given)
    for op in graph.sources:
        if isinstance(op.kind, FromIterable):
            read = findings_of_items(universe, op.kind.items)
            found[op.name] += [] if read is None else [read]
            if _runs_while_read(op.kind.items):
                found[op.name].append(Findings(runs_anything=True, connector=True))
    for op in graph:
        found[op.name] += findings_of_connector(universe, op.kind)
    if on_error is not None:
        code = Code(on_error, (None,))
        found[ON_ERROR] = [findings_of_function(universe, code)]
    _touch_lists(graph, found)
    _hand_on(graph, found, offered)
    return Verdicts(universe, found)


def _touch_lists(graph: Graph, found: Mapping[str, list[Findings]]) -> None:
    """Note which sources read a collection that some part of the program changes."""
    changed = spread_changes(f for each in found.values() for f in each)
    for op in graph.sources if changed else ():
        if not isinstance(op.kind, FromIterable):
            continue
        items = op.kind.items
        behind = gc.get_referents(items) if isinstance(items, MappingView) else ()
        read = Findings(connector=True)
        for each in (items, *behind):
            if id(each) in changed or arrays_in(each):
                read.touch("its list", each, Place(op.site.file, op.site.line))
        found[op.name].append(read)


def _hand_on(
    graph: Graph,
    found: Mapping[str, list[Findings]],
    offered: Mapping[str, Arrival],
) -> None:
    """Pass on the shared mutable objects that items carry from operator to operator.

    If an operator emits an object it does not own, every operator downstream reads that
    object, and changes it where it changes its items. A list whose items have parts in
    common stands for these parts.
    """
    changed = spread_changes(f for each in found.values() for f in each)
    changers = {name for name, each in found.items() if any(map(_changes_items, each))}
    handed: dict[str, dict[int, Any]] = {}
    for op in graph:  # producers first
        arriving: dict[int, Any] = {}
        for each in op.inputs:
            arriving |= handed.get(each.operator, {})
        at = Place(op.site.file, op.site.line)
        if changed and isinstance(op.kind, Lookup):
            found[op.name].append(_findings_of_table(op.kind, changed, at))
        if arriving and not found[op.name]:
            found[op.name].append(Findings(connector=True))
        for one in found[op.name] if arriving else ():
            for target in arriving.values():
                one.touch("its items", target, at)
                if _changes_items(one):
                    one.escape(target, at)
        own = (one.hands_on for one in found[op.name])
        handed[op.name] = arriving | {k: v for each in own for k, v in each.items()}
        if isinstance(op.kind, FromIterable) and _can_change(offered[op.name]):
            items = op.kind.items
            listed = items if isinstance(items, list | tuple) else ()
            held = find_held(listed, changed) if changed else []
            if offered[op.name].twins and changers & descendants(graph, op.name):
                held.append(items)
            handed[op.name] |= {id(each): each for each in held}


def _changes_items(found: Findings) -> bool:
    return any(effect.text.endswith(CHANGES_INPUT) for effect in found.effects)


def _findings_of_table(kind: Lookup, changed: Any, at: Place) -> Findings:
    """Return the findings about a table whose values go into items."""
    found = Findings()
    for each in find_held([*kind.table.values(), *kind.default], changed):
        found.touch("its table", each, at)
        found.hands_on[id(each)] = each
    return found


def _can_change(arrival: Arrival) -> bool:
    """Tell whether a source's items may contain something mutable."""
    flat = all(is_scalar_type(t) or issubclass(t, tuple) for t in arrival.types)
    return not (arrival.complete and flat)


def findings_of_connector(universe: Universe, kind: Kind) -> list[Findings]:
    """Return the findings about the methods of a user's source or sink.

    Files, databases and their own attributes are their business: a source promises that
    reading from a position gives the same rows again. What counts is which globals they
    assign, and which objects of the program they read or change.
    """
    found = [findings_of_function(universe, code) for code in connector_code(kind)]
    return [
        Findings(
            reads={k: r for k, r in each.reads.items() if _is_data(r.target)},
            changes=each.changes,
            touched={k: r for k, r in each.touched.items() if _is_data(r.target)},
            rebinds={k: at for k, at in each.rebinds.items() if k[1] != ATTRIBUTE},
            visited=each.visited,
            runs_anything=bool(each.calls_anyone or each.writes_anything),
            connector=True,
            keeps_given=each.keeps_given and isinstance(kind, ReadSource),
            changes_given=each.changes_given and isinstance(kind, ReadSource),
        )
        for each in found
    ]


def _runs_while_read(items: Any) -> bool:
    """Tell whether reading an iterator runs code, as with a started generator."""
    return isinstance(items, Iterator) and type(items) not in _PLAIN_ITERATORS


def _is_data(target: Any) -> bool:
    return not isinstance(target, (*CALLABLES, ModuleType))


def connector_code(kind: Kind) -> Iterator[Code]:
    """Yield the methods of a user's source or sink that engines call."""
    match kind:
        case ReadSource(source=connector):
            calls = _CALLS_OF_SOURCES
        case WriteSink(sink=connector) if connector is not None:
            calls = _CALLS_OF_SINKS
        case _:
            return
    for name, (types, use) in calls.items():
        method = getattr(connector, name, None)
        if method is None:
            continue
        if not isinstance(method, MethodType) or is_users_code(
            method.__func__.__code__
        ):
            yield Code(method, types, use=use)


def roots_of(graph: Graph) -> Iterator[Any]:
    """Yield the objects from which the modules of a program are found."""
    for op in graph:
        yield op.type
        connectors = (code.function for code in connector_code(op.kind))
        for function in (*op.called, *connectors):
            yield from roots_of_function(function)
        if isinstance(op.kind, FromIterable) and isinstance(
            op.kind.items, list | tuple
        ):
            yield from set(map(type, op.kind.items))
        if isinstance(op.kind, Iterate):
            yield from roots_of(op.kind.body)


def roots_of_function(function: Any) -> Iterator[Any]:
    """Yield the objects from which the modules of a function are found."""
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


def _cells(function: Any) -> Iterator[Any]:
    if not isinstance(function, FunctionType):
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue


class _Learner:
    """Analyzes the code of operators, each function once."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self._known: dict[Any, Findings] = {}
        self._facing: dict[Arrival, Universe] = {}

    def about(self, graph: Graph, op: Op, arrival: Arrival) -> list[Findings]:
        """Return the findings about all code of an operator."""
        if arrival not in self._facing:
            self._facing[arrival] = self.universe.facing(arrival)
        universe = self._facing[arrival]
        try:
            return [
                *self._about(graph, op, universe),
                *self.about_key(graph, op, universe),
                *_implicit(graph, op, universe),
            ]
        except RecursionError:
            place = Place(op.site.file, op.site.line)
            found = Findings(
                keeps_given=True,
                changes_given=True,
                changes_shared=True,
                writes_anything=place,
                calls_anyone=place,
            )
            found.effect("unknown", "the code is nested too deeply to follow", place)
            return [found]

    def about_key(self, graph: Graph, op: Op, universe: Universe) -> list[Findings]:
        """Return the findings about the key functions of an operator.

        A key must be reproducible, or an item would have no state to meet; so a
        function is refused if it is proved to change something or to depend on more
        than the item. What only an item of a class that nothing shows to arrive would
        do is no proof.
        """
        types = {graph[i.operator].type for i in op.inputs if i.operator in graph}
        item = types.pop() if len(types) == 1 else None
        found = []
        for function in op.key_functions:
            code = Code(function, (item,))
            known = self._function(code, universe)
            if any(effect.kind != "unknown" for effect in known.effects):
                shown = universe.facing(universe.arriving._replace(complete=True))
                for effect in self._function(code, shown).effects:
                    if effect.kind != "unknown":
                        raise _refuse_key(op, function, effect)
                known = replace(known, effects=_doubt(known.effects))
            found.append(known)
        return found

    def _about(self, graph: Graph, op: Op, universe: Universe) -> list[Findings]:
        item = _item_type(graph, op)
        match op.kind:
            case Scan(step=step):
                item = item or parameter_type(step, 1)
                return [findings_of_scan(universe, op.kind, item)]
            case Apply(operator=cls):
                if declaration_of(cls).state == "stateless":
                    return []
                item = item or parameter_type(cls.process, 1)
                return [findings_of_operator(universe, op.kind, item)]
            case Iterate(body=body, until=until):
                within = SOMETHING._replace(sets=universe.arriving.sets)
                found = [f for each in body for f in self.about(body, each, within)]
                if until is not None:
                    code = Code(until, (list,), use="truth")
                    found.append(self._function(code, self.universe.facing(within)))
                return found
        return [self._function(code, universe) for code in _codes(graph, op, item)]

    def _function(self, code: Code, universe: Universe) -> Findings:
        key = (*_identity(code.function), code[1:], universe.arriving)
        if key not in self._known:
            self._known[key] = findings_of_function(universe, code)
        return self._known[key]


def _refuse_key(op: Op, function: Any, effect: Effect) -> GraphError:
    text = (
        f"the key of {op.name!r} must depend on the item alone; "
        f"{describe_function(function)} does not: {effect.text} "
        f"({effect.file}:{effect.line})"
    )
    fix = "compute it in a map before, and key by its result"
    return GraphError((Fault(op.name, text, fix, op.site.file, op.site.line),))


def _doubt(effects: Iterable[Effect]) -> dict[Effect, None]:
    """Return effects that only an item of some class of the program would have."""
    return {
        effect
        if effect.kind == "unknown"
        else effect._replace(text=f"if such an item arrives, {effect.text}"): None
        for effect in effects
    }


def _implicit(graph: Graph, op: Op, universe: Universe) -> Iterator[Findings]:
    """Yield the findings about user code that engines run implicitly."""
    items = [graph[each.operator].type for each in op.inputs if each.operator in graph]
    if isinstance(op.kind, SourceKind):
        kind = None if isinstance(op.kind, FromIterable | Generate) else op.type
        found = [findings_of_construction(universe, op, kind)]
    else:
        found = [findings_of_readings(universe, op, items)]
        for each in items:
            found += findings_of_pickling(universe, op, each)
    yield from (each for each in found if each is not None)


def _identity(function: Any) -> tuple[Any, ...]:
    """Return the identity of a function, ignoring the numbers it has captured."""
    if not isinstance(function, FunctionType) or vars(function):
        return (id(function),)
    captured = [*_cells(function), *(function.__defaults__ or ())]
    captured += (function.__kwdefaults__ or {}).values()
    seen = tuple(id(type(v)) if is_scalar(v) else id(v) for v in captured)
    code = function.__code__
    return (code, code.co_filename, id(function.__globals__), seen, len(captured))


def _codes(graph: Graph, op: Op, item: Any) -> Iterator[Code]:
    """Yield the functions of an operator with the types they are called with."""
    for role, function in op.kind.user_code:
        types: tuple[Any, ...] = (item or parameter_type(function, 0),)
        if isinstance(op.kind, Aggregate | Block):
            types = (list if item is None else list[item],)
        elif len(op.inputs) > 1:
            types = tuple(graph[each.operator].type for each in op.inputs)
        elif isinstance(op.kind, Lookup):
            types = (*types, None)
        elif role == "factory":
            types = ()
        yield Code(function, types, use=_USES.get(role, _use_of(op.kind)))
    if isinstance(op.kind, Aggregate) and op.kind.into is not None:
        yield Code(op.kind.into, (), by_name=True)


def _use_of(kind: Kind) -> Use:
    return "each" if isinstance(kind, FlatMap | Block) else "value"


def _item_type(graph: Graph, op: Op) -> Any:
    """Return the tuple type of an operator's input items, if it is known."""
    if len(op.inputs) != 1 or op.inputs[0].operator not in graph:
        return None
    return graph[op.inputs[0].operator].type


def _traits(
    graph: Graph, op: Op, effect: Effect | None, *, keeps_nothing: bool = False
) -> Traits:
    traits = _with_outputs(op, _traits_of_kind(op), _item_type(graph, op))
    if isinstance(op.kind, SourceKind) and effect is not None:
        found = Evidence("state", effect.text, effect.file, effect.line)
        others = [one for one in traits.evidence if one.trait != "state"]
        evidence = (found, *others)
        return replace(traits, in_parallel=False, effects=True, evidence=evidence)
    if isinstance(op.kind, SourceKind | SinkKind):
        return traits
    if keeps_nothing and isinstance(op.kind, Apply) and op.timing is None:
        text = f"{op.kind.operator.__name__} changes nothing that it holds"
        traits = _stating(op, replace(traits, state="stateless", key=()), "state", text)
    traits = _with_declarations(op, traits)
    if effect is not None:
        return _make_global(op, traits, effect)
    return traits


def _traits_of_kind(op: Op) -> Traits:
    """Return the traits of an operator, assuming pure code that forwards nothing."""
    if op.timing is not None:
        return _traits_by_clock(op)
    return op.kind.traits(op)


def _traits_by_clock(op: Op) -> Traits:
    """Return the traits of an operator that follows its stream's clock.

    Every replica receives each advance, so its keys may be divided among replicas.
    """
    match op.kind:
        case Union():
            text = "union keeps the clocks of its inputs, which all replicas see"
            return Traits(
                "stateless", forwards=None, evidence=(why(op, "state", text),)
            )
        case Aggregate(window=window) if window.punctuation and op.keyed_by:
            closes = "a punctuation closes the windows of several keys at once"
        case Apply() as kind if op.keyed_by and kind.overrides("punctuation"):
            closes = f"{kind.operator.__name__}.punctuation() is asked of all keys"
        case _ if op.keyed_by:
            text = f"what the clock closes is kept per {', '.join(op.keyed_by)}"
            passes = isinstance(op.kind, Scan | Apply)
            return Traits(
                "keyed",
                key=op.keyed_by,
                push=ANY,
                punctuation="preserving" if passes else "free",
                evidence=(why(op, "state", text),),
            )
        case _:
            closes = "it follows the clock of the stream, one for all items"
    return keep_one_state(
        op, closes, ANY, punctuation="preserving", expects_punctuation=True
    )


def _with_outputs(op: Op, traits: Traits, item: Any) -> Traits:
    """Refine the traits of a kind by what its code says about outputs."""
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
    """Replace the traits that were found by those that the user declared."""
    code = op.kind.user_code
    declared = declaration_of(code[0].function if code else None)
    by_item = op.timing is None  # the clock needs more than an item provides
    if declared.push is not None and by_item and isinstance(op.kind, Apply | FlatMap):
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
        at_signs = map(op.kind.overrides, ("punctuation", "finish", "on_time"))
        if not by_item or any(at_signs):
            return traits  # what one instance emits at the end, many would emit
        text = "is declared to be stateless"
        return _stating(op, replace(traits, state="stateless", key=()), "state", text)
    return traits


def _stating(op: Op, traits: Traits, trait: Trait, text: str) -> Traits:
    """Replace the evidence for one trait."""
    others = tuple(each for each in traits.evidence if each.trait != trait)
    return replace(traits, evidence=(why(op, trait, text), *others))


def _make_global(op: Op, traits: Traits, effect: Effect) -> Traits:
    """Return the traits of an operator whose code is not provably pure."""
    text = effect.text
    refuted = isinstance(op.kind, Apply) and find_own_write(op.kind.operator)
    if effect.kind == "unknown" and "declare" not in text and not refuted:
        text += '; say @ab.declare(state="stateless") if that does not matter'
    found = Evidence("state", text, effect.file, effect.line, _cause(effect))
    others = tuple(each for each in traits.evidence if each.trait != "state")
    return replace(
        traits, state="global", key=(), effects=True, evidence=(found, *others)
    )


def _cause(effect: Effect) -> Cause:
    match effect.kind:
        case "changes":
            of_input = effect.text.endswith(CHANGES_INPUT)
            return "input" if of_input else "writes"
        case "impure":
            return "world"
        case "identity":
            return "identity"
        case "shared":
            return "shared"
        case "unknown":
            return "unseen"


# -- the types of the items on each stream


def arrival_by_annotation(kind: Any) -> Arrival:
    """Return the types of items built from their annotation, as rows of a file are.

    >>> arrival_by_annotation(int).complete, arrival_by_annotation(None).complete
    (True, False)
    """
    if is_scalar_type(kind):
        return arrival_of([kind])
    fields = fields_of(kind)
    if fields is None:
        return ANYTHING
    known = all(map(is_scalar_type, fields.values()))
    if not known:
        return SOMETHING._replace(top=frozenset([kind]))
    made = arrival_of([*fields.values(), type(None)])
    return Arrival(frozenset([kind]), made.types | {kind}, complete=True, sets=False)


_LOOKED_INTO = (list, tuple, set, frozenset, dict, str, bytes, collections.deque)


# Their outputs are the items they are given, or those they read.
_PASSING_ON = (
    *(Filter, Punctuate, Split, Union, Merge, Deal, Collect, EventTime, InOrder),
    SourceKind,
)
# Their code sees one item at a time.
_ONE_BY_ONE = (Map, Filter, FlatMap, Punctuate, Split)


def arriving_at(graph: Graph, op: Op, given: Mapping[str, Arrival]) -> Arrival:
    """Return the types of the items that reach an operator, and of what they meet."""
    found = NOBODY
    for each in op.inputs:
        found |= given.get(each.operator, ANYTHING)
    if isinstance(op.kind, Join | Lookup):  # what its functions are called with too
        table = op.kind.table.values() if isinstance(op.kind, Lookup) else ()
        met = [*table, *op.kind.default]
        found |= look_into(met, often=True) if met else NOBODY
    if len(op.inputs) > 1 and _can_change(found) and _come_by_two_ways(graph, op):
        return found._replace(twins=True)
    return found


def _come_by_two_ways(graph: Graph, op: Op) -> bool:
    """Tell whether one item may reach an operator on two of its inputs."""
    above: set[str] = set()
    for each in op.inputs:
        behind = _ancestors(graph, each.operator)
        if above & behind:
            return True
        above |= behind
    return False


def _ancestors(graph: Graph, name: str) -> set[str]:
    """Return an operator with all that its items come from."""
    found, waiting = set[str](), [name]
    while waiting:
        each = waiting.pop()
        if each not in found and each in graph:
            found.add(each)
            waiting += [one.operator for one in graph[each].inputs]
    return found


def arrival_from_source(kind: SourceKind, item: Any) -> Arrival:
    """Return the types of a source's items.

    Only Python's own containers are inspected; other iterables may run code, so nothing
    is assumed about them.
    """
    items: Any = getattr(kind, "items", None)
    if type(items) is range:
        return arrival_of([int])
    if type(items) in _LOOKED_INTO:
        return look_into([*items]) if len(items) else SOMETHING
    return SOMETHING if item is None else arrival_by_annotation(item)


def departing_from(op: Op, arrival: Arrival, found: list[Findings]) -> Arrival:
    """Return the types of an operator's outputs."""
    given = _types_departing(op, arrival, found)
    nans = arrival.nans or any(one.gives.nans for one in found)
    given = given._replace(nans=nans)
    if isinstance(op.kind, Map | Filter | Punctuate | Split | Union | Merge):
        return given._replace(twins=arrival.twins or any(one.hands_on for one in found))
    if isinstance(op.kind, FromIterable) and given.complete:
        return given
    return given._replace(twins=_can_change(given))


def _types_departing(op: Op, arrival: Arrival, found: list[Findings]) -> Arrival:
    kind = op.kind
    if (
        isinstance(kind, Map | FlatMap | Scan | Apply | Block | Generate)
        or (isinstance(kind, Aggregate) and kind.function is not None)
        or (isinstance(kind, Join | Lookup | Barrier) and kind.into is not None)
    ):
        given = NOBODY
        for each in found:
            given |= each.gives
        if given != NOBODY and (given.complete or not given.sets):
            return given
        return arrival_by_annotation(op.type)._replace(
            sets=given.sets and op.type is None
        )
    if isinstance(kind, _PASSING_ON):
        return arrival
    if isinstance(kind, Join | Lookup | Barrier):
        top = frozenset([tuple])
        return arrival._replace(top=top, types=arrival.types | top)
    given = SOMETHING._replace(sets=arrival.sets)
    for each in found:
        given |= each.gives
    return given


def blame_givers(
    graph: Graph, found: dict[str, list[Findings]], given: Mapping[str, Arrival]
) -> None:
    """Keep a set in one process from where it is made to where its order matters."""
    for op in reversed(graph.ops):
        if not any(each.orders_items for each in found[op.name]):
            continue
        for name in {each.operator for each in op.inputs if each.operator in graph}:
            if given[name].sets:
                effect = Findings(orders_items=True)
                text = f"gives a set, and {op.name} depends on its order"
                site = graph[name].site
                effect.effect("impure", text, Place(site.file, site.line))
                found[name].append(effect)
