"""A program at a glance, as plain data: its drawing, and what is parallel in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anabranch.compiler.compile import Compilation
from anabranch.plan.draw import draw_svg


def overview(compilation: Compilation) -> dict[str, Any]:
    """Return what a dashboard shows of a program before anything was measured.

    >>> import anabranch as ab
    >>> made = ab.compile(ab.from_iterable([1, 2]).map(abs).to_list())
    >>> shown = overview(made)
    >>> shown["operators"], shown["parallel"], shown["sequential"][0]["operator"]
    (3, 2, 'to_list')
    """
    graph, plan = compilation.graph, compilation.plan
    return {
        "name": Path(graph.sources[0].site.file).name,
        "drawing": draw_svg(graph, plan),
        "operators": len(plan.operators),
        "parallel": sum(len(region.operators) for region in plan.regions),
        "sequential": compilation.to_dict()["sequential"],
        "explanation": compilation.explain(),
    }
