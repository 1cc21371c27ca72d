"""Turns loops inside out: many firings side by side, one step of the loop at a time.

A loop whose rounds depend on one another goes at the pace of one addition after the
other. Different firings do not depend on one another, so a kernel with such a loop runs
it for many firings at once, each in its lane: the same steps in the same order for each,
but the processor works on several lanes at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from anabranch.compiler.numeric.values import Kind

LANES = 256
_NAME = re.compile(r"\bv\d+\b")
_DTYPES: dict[Kind, str] = {
    "float": "np.float64",
    "int": "np.int64",
    "bool": "np.bool_",
}


def has_loop(lines: Sequence[tuple[int, str]]) -> bool:
    """Tell whether some line is within a loop."""
    return any(depth for depth, _ in lines)


def in_lanes(
    lines: Sequence[tuple[int, str]], kinds: Mapping[str, Kind]
) -> Iterator[str]:
    r"""Yield the body of a kernel that runs its firings in lanes.

    >>> lines = [(0, "v1 = x0[j]"), (0, "for v2 in range(9):"), (1, "v1 = v1 + k0"),
    ...          (0, "o0[j] = v1")]
    >>> print("\n".join(in_lanes(lines, {"v1": "float"})))
        r1 = np.empty(256, np.float64)
        for j0 in range(0, count, 256):
            m = min(256, count - j0)
            for l in range(m):
                j = j0 + l
                r1[l] = x0[j]
            for v2 in range(9):
                for l in range(m):
                    j = j0 + l
                    r1[l] = r1[l] + k0
            for l in range(m):
                j = j0 + l
                o0[j] = r1[l]
    """
    pieces = list(_pieces(lines))
    crossing = _crossing(pieces)
    for name in crossing:
        yield f"    r{name[1:]} = np.empty({LANES}, {_DTYPES[kinds[name]]})"
    yield f"    for j0 in range(0, count, {LANES}):"
    yield f"        m = min({LANES}, count - j0)"
    for depth, texts in pieces:
        indent = "    " * (2 + depth)
        if texts[0].startswith("for "):
            yield indent + texts[0]
            continue
        yield f"{indent}for l in range(m):"
        yield f"{indent}    j = j0 + l"
        for text in texts:
            yield f"{indent}    {_NAME.sub(lambda m: _lane(m[0], crossing), text)}"


def _pieces(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the heads of loops, and what stands together between them."""
    numbered = [
        (depth, n if text.startswith("for ") else -1, text)
        for n, (depth, text) in enumerate(lines)
    ]
    for (depth, _), group in groupby(numbered, key=lambda line: line[:2]):
        yield depth, [text for _, _, text in group]


def _crossing(pieces: Sequence[tuple[int, list[str]]]) -> list[str]:
    """Return the numbers that one piece leaves to another; loops have their own."""
    seen: dict[str, set[int]] = {}
    counters: set[str] = set()
    for number, (_, texts) in enumerate(pieces):
        for text in texts:
            if text.startswith("for "):
                counters.update(_NAME.findall(text.partition(" in ")[0]))
            for name in _NAME.findall(text):
                seen.setdefault(name, set()).add(number)
    return [n for n, places in seen.items() if len(places) > 1 and n not in counters]


def _lane(name: str, crossing: Sequence[str]) -> str:
    return f"r{name[1:]}[l]" if name in crossing else name
