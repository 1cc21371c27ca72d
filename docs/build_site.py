"""Adapt pages for the site.

Examples of docstrings become code blocks. Links to files outside of docs/, which the
site does not have, become plain text.
"""

from __future__ import annotations

import re

import griffe

_EXAMPLE = re.compile(r"(?m)^>>> .*(?:\n(?!\s*$).*)*")
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")


class FenceExamples(griffe.Extension):
    """Puts each example of a docstring into a fence."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Rewrite the docstring of an object as it is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = fence(obj.docstring.value)


def fence(text: str) -> str:
    """Return a docstring with its examples in fences."""
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return a page without links to files that are not part of the site."""
    return _OUTSIDE.sub(r"\1", markdown)
