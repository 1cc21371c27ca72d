"""A plan as text: the decisions for every operator, with reasons."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterator, Mapping

from anabranch.compiler.advice import advise, suggest
from anabranch.compiler.options import Rules, Target
from anabranch.graph.graph import Graph
from anabranch.graph.kind import Push, Traits
from anabranch.operators.blocks import Block
from anabranch.plan.plan import Plan, Reason, Region, Sequential

WIDTH = 88
_FIRST_JOINTS = {
    "parallel_source": "every replica reads a part of the source",
    "split": "one splitter distributes the items",
    "shuffle": "each replica of the region before sends to each replica here",
}
_LAST_JOINTS = {
    "parallel_sink": "every replica writes a part of the output",
    "merge": "one merger restores the order",
    "shuffle": "each replica sends to each replica of the region after",
}


def explain(
    graph: Graph,
    traits: Mapping[str, Traits],
    plan: Plan,
    target: Target | None = None,
    rules: Rules | None = None,
) -> str:
    """Return a review of the plan: regions, sequential operators, and advice.

    >>> from anabranch.compiler.make_plan import make_plan
    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> g = Graph((Op("a", Kind()), Op("b", Kind(), (Output("a"),))))
    >>> known = {"a": Traits("global"),
    ...          "b": Traits("stateless", punctuation="preserving")}
    >>> print(explain(g, known, make_plan(g, known)).partition("Sequential")[0])
    1 of 2 operators can run in parallel, in 1 region.
    <BLANKLINE>
    r0: b
        without a key; one output for each item
        begins with a split: one splitter distributes the items
        ends with a merge: one merger restores the order
        order: round_robin, the cheapest safe ordering: stateless with one output for each
               item, so taking turns is enough
    <BLANKLINE>
    <BLANKLINE>
    """
    sections = [_summary(plan), *(_region(graph, region) for region in plan.regions)]
    if plan.one_thread:
        why = f"{plan.one_thread}. {plan.one_thread_advice}".rstrip()
        text = f"The whole program runs as one thread: {why}"
        sections.append(_wrap(text, "", 4))
    if plan.sequential:
        sections.append(_sequential(graph, traits, plan.sequential))
    copies = "\n".join(_copies(traits))
    if copies:
        sections.append(f"Copies\n{copies}")
    rounds = "\n".join(_rounds(plan))
    if rounds:
        sections.append(f"Rounds\n{rounds}")
    runs = "\n".join(_runs(plan))
    if runs:
        sections.append(f"Columns or Python\n{runs}")
    rates = "\n".join(_subgraphs(graph, plan))
    if rates:
        sections.append(f"Fixed rates\n{rates}")
    advice = () if plan.one_thread else advise(graph, traits, plan, target, rules)
    if advice:
        lines = "\n".join(_wrap(f"{one}.", "    ", 4) for one in advice)
        sections.append(f"What one declaration would change, if it holds\n{lines}")
    rewrites = suggest(graph, traits, plan, target, rules)
    if rewrites:
        lines = "\n".join(_wrap(f"{one}.", "    ", 4) for one in rewrites)
        sections.append(
            f"How to rewrite operators that are proved to be sequential\n{lines}"
        )
    return "\n\n".join(sections)


def _summary(plan: Plan) -> str:
    inside = sum(len(region.operators) for region in plan.regions)
    of = _format_count(len(plan.operators), "operator")
    if not inside:
        return f"None of the {of} can run in parallel."
    regions = _format_count(len(plan.regions), "region")
    return f"{inside} of {of} can run in parallel, in {regions}."


def _region(graph: Graph, region: Region) -> str:
    key = f"key {', '.join(region.key)}" if region.key else "without a key"
    order = f"order: {region.ordering}, the cheapest safe ordering: "
    rate = rate_text(region.push)
    if region.last_joint == "parallel_sink":
        rate = "it has no outputs"
    in_groups = f"; {region.period} items at a time" if region.period > 1 else ""
    first, last = _space_joint(region.first_joint), _space_joint(region.last_joint)
    lines = [
        _wrap(f"{region.name}: {_list_operators(graph, region)}", "", 4),
        f"    {key}; {rate}{in_groups}",
        *_streams(region),
        f"    begins with a {first}: {_FIRST_JOINTS[region.first_joint]}",
        f"    ends with a {last}: {_describe_end(region)}",
        _wrap(order + region.why, "    ", 7),
    ]
    if region.ends:
        lines.append(_wrap(f"stops before {region.ends}", "    ", 7))
    return "\n".join(lines)


def _describe_end(region: Region) -> str:
    if (region.ordering, region.last_joint) == ("none", "merge"):
        return "items are passed on as they arrive"
    return _LAST_JOINTS[region.last_joint]


def _list_operators(graph: Graph, region: Region) -> str:
    """Return the operators of a region: with arrows if it is a chain."""
    steps = zip(region.operators, region.operators[1:], strict=False)
    is_chain = all(
        graph.consumers(one) == (two,) and graph.producers(two) == (one,)
        for one, two in steps
    )
    return (" -> " if is_chain else ", ").join(region.operators)


def _streams(region: Region) -> Iterator[str]:
    """Yield the streams that enter and leave a region, if there are several."""
    for ends, streams in (("inputs", region.inputs), ("outputs", region.outputs)):
        if len(region.inputs) > 1 or len(region.outputs) > 1:
            yield _wrap(f"{ends}: {', '.join(streams) or 'none'}", "    ", 7)


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
            return f"at least {_format_count(least, 'output')} for each item"
        case (least, most) if least == most:
            return f"{_format_count(least, 'output')} for each item"
        case (least, most):
            return f"{least} to {most} outputs for each item"


def _sequential(
    graph: Graph, traits: Mapping[str, Traits], sequential: tuple[Sequential, ...]
) -> str:
    lines = ["Sequential"]
    for one in sequential:
        site = graph[one.operator].site
        lines.append(_wrap(f"{one.operator} ({site}): {one.why}", "    ", 4))
        lines.extend(_quote_line(one.reason))
        lines.extend(_lift(traits[one.operator]))
    return "\n".join(lines)


def _lift(traits: Traits) -> Iterator[str]:
    """Yield whether an operator's external state is lifted."""
    if traits.lifted:
        places = ", ".join(map(str, traits.lifted))
        yield _wrap(f"its state is lifted: {places}", "        ", 4)
    elif traits.not_lifted:
        yield _wrap(f"its state is not lifted: {traits.not_lifted}", "        ", 4)


def _copies(traits: Mapping[str, Traits]) -> Iterator[str]:
    """Yield the operators whose outputs are copied."""
    for name, of_op in traits.items():
        if of_op.copied:
            text = f"{name}: its outputs are copied, since it may change them later"
            yield _wrap(text, "    ", 4)


def _quote_line(reason: Reason | None) -> Iterator[str]:
    """Yield the user's line that forces something, if it can be read."""
    words = (
        "" if reason is None else linecache.getline(reason.file, reason.line).strip()
    )
    if reason is not None and words:
        where = f"        {reason.file}:{reason.line}: "
        room = max(WIDTH - len(where), 20)
        yield where + textwrap.shorten(words, room, placeholder=" ...")


def _rounds(plan: Plan) -> Iterator[str]:
    in_regions = {name for region in plan.regions for name in region.operators}
    for body in plan.bodies:
        when = "in each round"
        if body.operator in in_regions:
            text = "each replica runs the rounds of whole windows"
            yield _wrap(f"{body.operator}: {text}", "    ", 4)
            when += " of the window that the end closes"
        for region in body.plan.regions:
            first = body.plan.operators[0].name  # where items come in
            inner = [name for name in region.operators if name != first]
            if not inner:
                continue
            key = f" by {', '.join(region.key)}" if region.key else ""
            verb = "runs" if len(inner) == 1 else "run"
            text = f"{body.operator}: {', '.join(inner)} of its body {verb} in parallel{key}"
            yield _wrap(f"{text}, {when}", "    ", 4)
        for one in body.plan.sequential:
            if one.operator in (
                body.plan.operators[0].name,
                body.plan.operators[-1].name,
            ):
                continue  # where items come in, and where they go out
            text = f"{one.operator} of its body runs once: {one.why}"
            yield _wrap(f"{body.operator}: {text}", "    ", 4)


def _runs(plan: Plan) -> Iterator[str]:
    """Yield how each computing operator runs, and why."""
    for op in plan.operators:
        if op.why:
            how = "columns" if op.runs == "columns" else "Python"
            yield _wrap(f"{op.name}: {how} ({op.why})", "    ", 4)


def _subgraphs(graph: Graph, plan: Plan) -> Iterator[str]:
    """Yield how operators of fixed rates run: what is compiled, and all blocks."""
    for subgraph in plan.subgraphs:
        blocks = any(isinstance(graph[n].kind, Block) for n in subgraph.operators)
        if subgraph.compiled == "numba" or blocks:
            runs = f"runs as {subgraph.compiled} ({subgraph.why})"
            yield _wrap(f"{', '.join(subgraph.operators)}: {runs}", "    ", 4)


def _wrap(text: str, indent: str, further: int) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + " " * further,
        break_on_hyphens=False,
    )


def _space_joint(joint: str) -> str:
    return joint.replace("_", " ")


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
