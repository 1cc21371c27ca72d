"""A plan as text: what was decided for every operator, and why."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterator, Mapping

from anabranch.analysis.traits import Traits
from anabranch.compiler.advice import advise
from anabranch.compiler.options import Rules, Target
from anabranch.graph.graph import Graph
from anabranch.plan.plan import Plan, Push, Reason, Region, Sequential, Subgraph

WIDTH = 88

_FIRST_JOINTS = {
    "parallel_source": "every replica reads a part of the source",
    "split": "one splitter deals the items out",
    "shuffle": "every replica of the region before sends to each one here",
}
_LAST_JOINTS = {
    "parallel_sink": "every replica writes a part of the output",
    "merge": "one merger puts the items back in order",
    "shuffle": "every replica sends to each one of the region after",
}


def explain(
    graph: Graph,
    traits: Mapping[str, Traits],
    plan: Plan,
    target: Target | None = None,
    rules: Rules | None = None,
) -> str:
    """Return a review of the plan: regions, what stays sequential, what would help.

    >>> from anabranch.compiler.make_plan import make_plan
    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kinds import Kind
    >>> g = Graph((Op("a", Kind()), Op("b", Kind(), (Output("a"),))))
    >>> known = {"a": Traits("global"), "b": Traits("stateless")}
    >>> print(explain(g, known, make_plan(g, known)).partition("Sequential")[0])
    1 of 2 operators can run in parallel, in 1 region.
    <BLANKLINE>
    r0: b
        without a key; one output for each item
        begins with a split: one splitter deals the items out
        ends with a merge: one merger puts the items back in order
        order: round_robin, the cheapest safe way: without state and with one output for
               each item, turns suffice
    <BLANKLINE>
    <BLANKLINE>
    """
    sections = [_summary(plan), *(_region(region) for region in plan.regions)]
    if plan.sequential:
        sections.append(_sequential(graph, plan.sequential))
    schedules = "\n".join(_subgraphs(plan))
    if schedules:
        sections.append(f"Fixed rates\n{schedules}")
    advice = advise(graph, traits, plan, target, rules)
    if advice:
        lines = "\n".join(_wrapped(f"{one}.", "    ", 4) for one in advice)
        sections.append(f"What one declaration would change, if it is true\n{lines}")
    return "\n\n".join(sections)


def _summary(plan: Plan) -> str:
    inside = sum(len(region.operators) for region in plan.regions)
    of = _counted(len(plan.operators), "operator")
    if not inside:
        return f"None of the {of} can run in parallel."
    regions = _counted(len(plan.regions), "region")
    return f"{inside} of {of} can run in parallel, in {regions}."


def _region(region: Region) -> str:
    key = f"key {', '.join(region.key)}" if region.key else "without a key"
    order = f"order: {region.ordering}, the cheapest safe way: "
    rate = rate_text(region.push)
    if region.last_joint == "parallel_sink":
        rate = "nothing leaves it"
    in_groups = f"; {region.period} items at a time" if region.period > 1 else ""
    first, last = _spaced(region.first_joint), _spaced(region.last_joint)
    lines = [
        _wrapped(f"{region.name}: {' -> '.join(region.operators)}", "", 4),
        f"    {key}; {rate}{in_groups}",
        f"    begins with a {first}: {_FIRST_JOINTS[region.first_joint]}",
        f"    ends with a {last}: {_LAST_JOINTS[region.last_joint]}",
        _wrapped(order + region.why, "    ", 7),
    ]
    if region.ends:
        lines.append(_wrapped(f"stops before {region.ends}", "    ", 7))
    return "\n".join(lines)


def rate_text(push: Push) -> str:
    """Return a push range in words.

    >>> rate_text(Push(0, None))
    'any number of outputs for each item'
    """
    match push:
        case (1, 1):
            return "one output for each item"
        case (0, 1):
            return "at most one output for each item"
        case (0, None):
            return "any number of outputs for each item"
        case (least, None):
            return f"at least {_counted(least, 'output')} for each item"
        case (least, most) if least == most:
            return f"{_counted(least, 'output')} for each item"
        case (least, most):
            return f"{least} to {most} outputs for each item"


def _sequential(graph: Graph, sequential: tuple[Sequential, ...]) -> str:
    lines = ["Sequential"]
    for one in sequential:
        site = graph[one.operator].site
        lines.append(_wrapped(f"{one.operator} ({site}): {one.why}", "    ", 4))
        lines.extend(_quoted(one.reason))
    return "\n".join(lines)


def _quoted(reason: Reason | None) -> Iterator[str]:
    """Yield the line of the user's that forces something, where it can be read."""
    words = (
        "" if reason is None else linecache.getline(reason.file, reason.line).strip()
    )
    if reason is not None and words:
        where = f"        {reason.file}:{reason.line}: "
        room = max(WIDTH - len(where), 20)
        yield where + textwrap.shorten(words, room, placeholder=" ...")


def _subgraphs(plan: Plan) -> Iterator[str]:
    """Yield the schedules that say something: more than one item, or compiled."""
    for subgraph in plan.subgraphs:
        if subgraph.compiled == "numba" or any(
            count > 1 for _, count in subgraph.repetitions
        ):
            yield _wrapped(_schedule(subgraph), "    ", 4)
    for queue in plan.queues:
        ends = f"{queue.producer} -> {queue.consumer}"
        yield _wrapped(f"a queue on {ends}: {queue.why}", "    ", 4)


def _schedule(subgraph: Subgraph) -> str:
    text = f"a round is {_firings(subgraph.repetitions)}"
    if subgraph.initial:
        text += f", after {_firings(subgraph.initial)} to begin with"
    held = [b for b in subgraph.buffers if b.items > 1]
    if held:
        room = ", ".join(f"{b.producer} -> {b.consumer} {b.items}" for b in held)
        text += f"; items between them at most: {room}"
    return f"{text}; runs as {subgraph.compiled} ({subgraph.why})"


def _firings(counts: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in counts)


def _wrapped(text: str, indent: str, further: int) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + " " * further,
        break_on_hyphens=False,
    )


def _spaced(joint: str) -> str:
    return joint.replace("_", " ")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
