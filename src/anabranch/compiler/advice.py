"""Advice: the effect of one declaration or one rewrite by the user.

Rewrites of operators whose state is proved:

A declaration would be false there, so none is advised. What helps instead depends on
the proof: state carried by a `scan` or an `Operator`, a key that separates it, a new
item instead of a changed one. Keys are tried, as declarations are: the program is
planned again with the key, and a key that would not help is not mentioned.

Declarations that would change the plan:

Each piece of advice is tried, not guessed: the program is planned again as if the
declaration were there, and the two plans are compared. Only what the analysis could not
see is advised to be declared; what it has proved cannot be declared away.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from anabranch.compiler.make_plan import make_plan
from anabranch.compiler.options import Rules, Target
from anabranch.compiler.ordering import is_prolific
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import Cause, Evidence, Push, Traits
from anabranch.operators.blocks import Block, Deal
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.fan_in import Barrier, Merge
from anabranch.operators.join import Join
from anabranch.operators.stateless import (
    Filter,
    FlatMap,
    Map,
    Punctuate,
    describe_function,
)
from anabranch.operators.windows import Aggregate
from anabranch.plan.plan import Plan, Region
from anabranch.python.forwards import replaces
from anabranch.python.purity import find_own_write

_ANY_KEY = ("key",)  # stands for a key that only the user can choose
_KEYED_KINDS = (Aggregate, Apply, Barrier, Block, Join, Merge, Scan)


class Rewrite(NamedTuple):
    """An operator, and how to rewrite it so that it can run in parallel."""

    operator: str
    text: str

    def __str__(self) -> str:
        return f"{self.operator}: {self.text}"


def suggest(
    graph: Graph,
    traits: Mapping[str, Traits],
    plan: Plan,
    target: Target | None = None,
    rules: Rules | None = None,
) -> tuple[Rewrite, ...]:
    """Return rewrites for the operators that are proved to be sequential."""

    def try_key(op: Op, key: tuple[str, ...]) -> str | None:
        """Return how the plan would change if an operator's state were keyed."""
        keyed = replace(traits[op.name], state="keyed", key=key)
        after = make_plan(graph, {**traits, op.name: keyed}, target, rules)
        return describe_effect(op.name, plan, after)

    found: list[Rewrite] = []
    proved = _find_proved(graph, traits, plan)
    for op, cause in itertools.islice(proved, MOST_TRIALS):
        effect = try_key(op, op.key or _ANY_KEY)
        parts = [_instead(op, cause), _by_key(op, cause, effect)]
        text = "; ".join(part for part in parts if part)
        if text:
            found.append(Rewrite(op.name, text))
    return tuple(found)


def _find_proved(
    graph: Graph, traits: Mapping[str, Traits], plan: Plan
) -> Iterator[tuple[Op, Cause]]:
    """Yield the sequential operators whose state is proved, with the kind of proof."""
    for sequential in plan.sequential:
        op, of_op = graph[sequential.operator], traits[sequential.operator]
        found = state_evidence(of_op)
        if of_op.state != "global" or found is None:
            continue
        if found.cause in ("unseen", "identity"):  # the latter says what to do
            continue
        match op.kind:
            case Apply() if found.cause == "kind" and not keeps_state(op.kind):
                continue  # it may have no state at all; its author may say so
        yield op, found.cause


def _instead(op: Op, cause: Cause) -> str:
    """Return a suggested replacement for the line found."""
    match cause:
        case "writes":
            return _place_for_state(op)
        case "input":
            return (
                "make a new item instead of changing the one it gets, such as "
                "item._replace(...) or dataclasses.replace(item, ...)"
            )
        case "world":
            return (
                "let it depend on the item alone; external input belongs into the items, "
                "external output into a sink"
            )
        case "shared":
            return (
                "one operator must own a shared object; put the code that changes it and "
                "the code that reads it into one Operator, or put its value into the items"
            )
        case "kind":
            return _without_state(op)
    return ""


def _without_state(op: Op) -> str:
    """Return an operator that does without the state of this kind, if there is one."""
    match op.kind:
        case Merge():
            return "where the order of arrival is enough, union(...) has no state"
        case Deal():
            return "where the item itself can tell its branch, split(route, n) has no state"
    return ""


def _place_for_state(op: Op) -> str:
    match op.kind:
        case Map():
            return "keep its state in a scan, .scan(step, initial)"
        case Filter():
            return (
                "keep its state in an attribute of an Operator whose process yields "
                "the item or nothing"
            )
        case FlatMap():
            return (
                "keep its state in an attribute of an Operator whose process yields "
                "the outputs"
            )
        case Scan():
            return "make it a part of the state that step takes and returns"
        case Apply(operator=cls):
            return f"keep its state in an attribute of {cls.__name__}, set in setup"
    return (
        "let its function depend on its arguments alone; an Operator before or after it "
        "can keep the state"
    )


def _by_key(op: Op, cause: Cause, effect: str | None) -> str:
    """Return the gain of a key, for state that a key can separate."""
    movable = cause == "writes" and isinstance(op.kind, Map | Filter | FlatMap)
    own = isinstance(op.kind, Scan | Apply) and cause == "writes"
    kept = cause == "kind" and isinstance(op.kind, _KEYED_KINDS) and not op.keyed_by
    if effect is None or not (movable or own or kept):
        return ""
    by_on = isinstance(op.kind, Barrier | Join | Merge)
    if op.key and not by_on:
        each = " and ".join(op.key)
        return f"a state for each {each}, the key of its stream, would {effect}"
    how = f"{op.kind.label}(..., on=...)" if by_on else "key_by(...)"
    return f"if each key may have its own state, {how} would {effect}"


MOST_TRIALS = 8  # each one plans the whole program again


class Advice(NamedTuple):
    """A declaration, its place, and its effect."""

    operator: str
    declaration: str
    where: str
    effect: str

    def __str__(self) -> str:
        return f"{self.declaration} on {self.where} would {self.effect}"


class TrialDeclaration(NamedTuple):
    """A declaration that may help, and the traits it would give."""

    operator: str
    declaration: str
    traits: Traits


def advise(
    graph: Graph,
    traits: Mapping[str, Traits],
    plan: Plan,
    target: Target | None = None,
    rules: Rules | None = None,
) -> tuple[Advice, ...]:
    """Return the declarations that would change the plan, if they are true.

    >>> from anabranch.graph.graph import Output
    >>> from anabranch.graph.kind import Kind
    >>> def score(item): ...
    >>> g = Graph((Op("a", Kind()), Op("b", Map(score), (Output("a"),))))
    >>> known = {"a": Traits("global"), "b": Traits("global")}
    >>> [advice] = advise(g, known, make_plan(g, known))
    >>> advice.declaration, advice.effect
    ('@ab.declare(state="stateless")', 'make b a parallel region')
    """
    found: list[Advice] = []
    for trial in itertools.islice(_trials(graph, traits, plan), MOST_TRIALS):
        changed = {**traits, trial.operator: trial.traits}
        effect = describe_effect(
            trial.operator, plan, make_plan(graph, changed, target, rules)
        )
        if effect is not None:
            code = graph[trial.operator].kind.user_code[0]
            where = describe_function(code.function)
            found.append(Advice(trial.operator, trial.declaration, where, effect))
    return tuple(found)


def _trials(
    graph: Graph, traits: Mapping[str, Traits], plan: Plan
) -> Iterator[TrialDeclaration]:
    for sequential in plan.sequential:
        op = graph[sequential.operator]
        stateless = _if_declared_stateless(op, traits[op.name])
        if stateless is not None:
            yield TrialDeclaration(op.name, '@ab.declare(state="stateless")', stateless)
    for region in plan.regions:
        yield from _forwarding_trials(graph, traits, region)
        yield from _rate_trials(graph, traits, region)


def _if_declared_stateless(op: Op, traits: Traits) -> Traits | None:
    """Return the traits of an operator whose code is declared stateless."""
    if traits.state != "global" or not op.kind.user_code or op.key_functions:
        return None  # a key function may be what could not be followed
    found = state_evidence(traits)
    possible = ("unseen", "kind") if isinstance(op.kind, Apply) else ("unseen",)
    if found is not None and found.cause not in possible:
        return None
    if isinstance(op.kind, Apply):
        return None if keeps_state(op.kind) else replace(traits, state="stateless")
    if op.keyed_by:
        return replace(traits, state="keyed", key=op.keyed_by)
    if isinstance(op.kind, Map | Filter | FlatMap | Punctuate):
        return replace(traits, state="stateless")
    return None  # the state is that of the operator itself, whatever its function does


def keeps_state(kind: Apply) -> bool:
    """Tell whether a class clearly has state, or a result that only one instance may
    give.
    """
    methods = ("setup", "punctuation", "on_time", "finish")
    if "__init__" in vars(kind.operator) or any(map(kind.overrides, methods)):
        return True
    return find_own_write(kind.operator) is not None


def state_evidence(traits: Traits) -> Evidence | None:
    """Return why an operator is considered stateful, if there is evidence."""
    return next((e for e in traits.evidence if e.trait == "state"), None)


def _forwarding_trials(
    graph: Graph, traits: Mapping[str, Traits], region: Region
) -> Iterator[TrialDeclaration]:
    """Yield the one operator that keeps the next key from reaching a region's end."""
    if region.last_joint != "shuffle":
        return
    followers = graph.consumers(region.operators[-1])
    if len(followers) != 1:
        return
    (follower,) = followers
    wanted = frozenset(traits[follower].key)
    if region.key:
        wanted &= frozenset(region.key)
    losing = [
        name
        for name in region.operators
        if (kept := traits[name].forwards) is not None
        and not wanted <= kept
        and graph[name].inputs
    ]
    if not wanted or len(losing) != 1 or not graph[losing[0]].kind.user_code:
        return
    function = graph[losing[0]].kind.user_code[0].function
    if any(replaces(function, name) for name in wanted):
        return
    of_op = traits[losing[0]]
    names = "".join(f'"{name}", ' for name in sorted(wanted)).strip()
    forwards = (of_op.forwards or frozenset()) | wanted
    yield TrialDeclaration(
        losing[0],
        f"@ab.declare(forwards=({names}))",
        replace(of_op, forwards=forwards),
    )


def _rate_trials(
    graph: Graph, traits: Mapping[str, Traits], region: Region
) -> Iterator[TrialDeclaration]:
    """Yield the one operator that makes a region prolific."""
    prolific = [n for n in region.operators if is_prolific(traits[n].push)]
    if region.ordering != "relaxed" or len(prolific) != 1:
        return
    op, of_op = graph[prolific[0]], traits[prolific[0]]
    unbounded = of_op.push.least <= 1 and of_op.push.most is None
    if isinstance(op.kind, FlatMap | Apply) and unbounded:
        push = Push(of_op.push.least, 1)
        declaration = f"@ab.declare(push=({push.least}, 1))"
        yield TrialDeclaration(op.name, declaration, replace(of_op, push=push))


def describe_effect(name: str, before: Plan, after: Plan) -> str | None:
    """Return the change around an operator, as the end of a sentence."""
    region = next((r for r in after.regions if name in r.operators), None)
    if region is None:
        return None
    members = frozenset(region.operators)
    grown = [r for r in before.regions if not members.isdisjoint(r.operators)]
    listed = ", ".join(region.operators)
    match grown:
        case []:
            return f"make {listed} a parallel region"
        case [one] if one.operators == region.operators:
            if one.ordering == region.ordering:
                return None
            return f"order {one.name} by {region.ordering} instead of {one.ordering}"
        case [one]:
            return f"extend {one.name} to {listed}"
        case _:
            names = " and ".join(r.name for r in grown)
            return f"make {names} one region of {listed}"
