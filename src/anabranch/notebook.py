"""Programs as drawings in notebooks.

A `Compilation` and a `Job` know how to show themselves. A stream does not know the
compiler, so it is registered here how the notebook draws one: as the plan for Spark,
with its regions. A program that has faults is shown as text.
"""

from __future__ import annotations

from anabranch.compiler.compile import Compilation
from anabranch.dashboard.cell import find_notebook
from anabranch.errors import AnabranchError
from anabranch.job import compile_sinks
from anabranch.language.drafts import Result
from anabranch.language.stream import Stream

SVG = "image/svg+xml"


def register() -> None:
    """Register the drawing of streams and sinks with this process's notebook, if
    any.
    """
    shell = find_notebook()
    if shell is not None:
        formatter = shell.display_formatter.formatters[SVG]
        formatter.for_type(Stream, draw_stream)
        formatter.for_type(Result, draw_result)


def draw_stream(stream: Stream) -> str | None:
    """Return the drawing of the program that leads to a stream."""
    return draw_result(stream.to_list())


def draw_result(result: Result) -> str | None:
    """Return the drawing of a program, or None if it has faults.

    >>> import anabranch as ab
    >>> draw_result(ab.from_iterable([1, 2]).map(abs).to_list())[:4]
    '<svg'
    """
    try:
        made: Compilation = compile_sinks(result)
    except AnabranchError:
        return None
    return made._repr_svg_()
