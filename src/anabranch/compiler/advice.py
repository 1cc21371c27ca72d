"""What one declaration of the user's would change.

Each piece of advice is tried, not guessed: the program is planned again as if the
declaration stood there, and the two plans are compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from anabranch.analysis.traits import Push, Traits
from anabranch.compiler.make_plan import make_plan
from anabranch.compiler.options import Rules, Target
from anabranch.compiler.ordering import is_prolific
from anabranch.graph.custom import Apply
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kinds import Filter, FlatMap, Map, Punctuate, shown
from anabranch.plan.plan import Plan, Region

MOST_TRIALS = 8  # each plans the whole program once more


class Advice(NamedTuple):
    """A declaration, where it would stand, and what it would change."""

    operator: str
    declaration: str
    where: str
    effect: str

    def __str__(self) -> str:
        return f"{self.declaration} on {self.where} would {self.effect}"


class Trial(NamedTuple):
    """A declaration that may be worth making, and the traits that it would give."""

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
    >>> from anabranch.graph.kinds import Kind
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
        effect = _effect(trial.operator, plan, make_plan(graph, changed, target, rules))
        if effect is not None:
            code = graph[trial.operator].kind.user_code[0]
            where = shown(code.function)
            found.append(Advice(trial.operator, trial.declaration, where, effect))
    return tuple(found)


def _trials(graph: Graph, traits: Mapping[str, Traits], plan: Plan) -> Iterator[Trial]:
    for sequential in plan.sequential:
        op = graph[sequential.operator]
        stateless = _if_declared_stateless(op, traits[op.name])
        if stateless is not None:
            yield Trial(op.name, '@ab.declare(state="stateless")', stateless)
    for region in plan.regions:
        yield from _forwarding_trials(graph, traits, region)
        yield from _rate_trials(graph, traits, region)


def _if_declared_stateless(op: Op, traits: Traits) -> Traits | None:
    """Return the traits of an operator whose code is declared to keep nothing."""
    if traits.state != "global" or not op.kind.user_code:
        return None
    if isinstance(op.kind, Apply):
        return None if _keeps_state(op.kind) else replace(traits, state="stateless")
    if op.state_key:
        return replace(traits, state="keyed", key=op.state_key)
    if isinstance(op.kind, Map | Filter | FlatMap | Punctuate):
        return replace(traits, state="stateless")
    return None  # the state is that of the operator itself, whatever its function does


def _keeps_state(kind: Apply) -> bool:
    """Tell whether a class clearly has state, or a result that only one may give."""
    methods = ("setup", "punctuation", "finish")
    return "__init__" in vars(kind.operator) or any(map(kind.overrides, methods))


def _forwarding_trials(
    graph: Graph, traits: Mapping[str, Traits], region: Region
) -> Iterator[Trial]:
    """Yield the one operator that keeps the next key from reaching a region's end."""
    if region.last_joint != "shuffle":
        return
    (follower,) = graph.consumers(region.operators[-1])
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
    of_op = traits[losing[0]]
    names = "".join(f'"{name}", ' for name in sorted(wanted)).strip()
    forwards = (of_op.forwards or frozenset()) | wanted
    yield Trial(
        losing[0],
        f"@ab.declare(forwards=({names}))",
        replace(of_op, forwards=forwards),
    )


def _rate_trials(
    graph: Graph, traits: Mapping[str, Traits], region: Region
) -> Iterator[Trial]:
    """Yield the one operator that makes a region prolific."""
    prolific = [n for n in region.operators if is_prolific(traits[n].push)]
    if region.ordering != "relaxed" or len(prolific) != 1:
        return
    op, of_op = graph[prolific[0]], traits[prolific[0]]
    if isinstance(op.kind, FlatMap | Apply) and of_op.push.least <= 1:
        push = Push(of_op.push.least, 1)
        declaration = f"@ab.declare(push=({push.least}, 1))"
        yield Trial(op.name, declaration, replace(of_op, push=push))


def _effect(name: str, before: Plan, after: Plan) -> str | None:
    """Return what has changed around an operator, as the end of a sentence."""
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
            return f"let {one.name} keep its order by {region.ordering}, not {one.ordering}"
        case [one]:
            return f"let {one.name} grow to {listed}"
        case _:
            names = " and ".join(r.name for r in grown)
            return f"make {names} one region of {listed}"
