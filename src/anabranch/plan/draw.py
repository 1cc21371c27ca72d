"""A program and its regions as a picture: an SVG that can go on a slide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape
from typing import NamedTuple

from anabranch.graph.graph import Graph
from anabranch.plan.layout import Layout, Route, columns, lay_out
from anabranch.plan.plan import Operator, Plan, Region

_FONT = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
_INK, _FAINT, _LINE, _PAPER = "#1f2a37", "#64748b", "#94a3b8", "#fbfcfe"
_GLOBAL = "#b45309"
_OVERLAP = 9.0  # how far a joint reaches into its region
_BOX, _GAP, _MARGIN, _PAD, _TITLE = 46.0, 34.0, 32.0, 16.0, 26.0


class Tint(NamedTuple):
    """The colours of a region: its box and its words."""

    fill: str
    ink: str


class Style(NamedTuple):
    """How words are set."""

    size: float
    ink: str
    weight: int = 400
    anchor: str = "start"


_TINTS = (
    Tint("#e6f0fd", "#1d5fb4"),
    Tint("#e5f6ee", "#12795a"),
    Tint("#f2ebfc", "#6d3fc0"),
    Tint("#e4f5f8", "#0e7490"),
    Tint("#fdeaf1", "#b02a66"),
    Tint("#eef4dd", "#4d7c0f"),
)


def draw_svg(graph: Graph, plan: Plan) -> str:
    """Return the drawing of a plan.

    >>> from anabranch.graph.graph import Op
    >>> from anabranch.graph.kinds import Kind
    >>> from anabranch.plan.plan import Push
    >>> alone = Operator("a", "stateless", (), 1, Push(1, 1), None, ())
    >>> svg = draw_svg(Graph((Op("a", Kind()),)), Plan((alone,), (), (), (), ()))
    >>> svg.startswith("<svg "), ">a</text>" in svg
    (True, True)
    """
    return "\n".join(_Drawing(graph, plan).lines())


class _Drawing:
    """The geometry of a drawing; `lines` gives it from the back to the front."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph = graph
        self.plan = plan
        self.known = {operator.name: operator for operator in plan.operators}
        self.tint_of = {r.name: i % len(_TINTS) for i, r in enumerate(plan.regions)}
        self.region_of = {n: r.name for r in plan.regions for n in r.operators}
        heights: dict[str | None, float] = dict.fromkeys(
            self.tint_of, _BOX + 2 * _PAD + 2 * _TITLE + 10
        )
        heights[None] = _BOX + 26
        self.layout: Layout = lay_out(graph, self.region_of, heights)

    def lines(self) -> Iterator[str]:
        width, height = self.size
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
            f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'font-family="{_FONT}" role="img">'
        )
        yield f'<rect width="100%" height="100%" fill="{_PAPER}"/>'
        yield from (self._region(index, r) for index, r in enumerate(self.plan.regions))
        yield from (self._stream(route) for route in self.layout.routes)
        for name in self.graph.names:
            yield from self._operator(name)
        for index, region in enumerate(self.plan.regions):
            yield from self._joints(index, region)
        yield from self._legend()
        yield "</svg>"

    @cached_property
    def widths(self) -> dict[str, float]:
        """The width of each operator: its name and its description must fit."""
        return {
            name: max(96.0, 8.3 * len(name) + 30, 6.3 * len(self._about(name)) + 30)
            for name in self.graph.names
        }

    @cached_property
    def middles(self) -> list[float]:
        """The middle of each layer."""
        layer_of = self.layout.layer_of
        layers = 1 + max(layer_of.values(), default=0)
        widths = [0.0] * layers
        for name, layer in layer_of.items():
            widths[layer] = max(widths[layer], self.widths[name])
        before = dict.fromkeys(range(layers), 0.0)  # room that joints need at its left
        after = dict.fromkeys(range(layers), 0.0)
        for region in self.plan.regions:
            first, last = layer_of[region.operators[0]], layer_of[region.operators[-1]]
            before[first] = max(before[first], _PAD + _pill_width(_first_words(region)))
            after[last] = max(after[last], _PAD + _pill_width(_last_words(region)))
        gaps = [_GAP + after[layer] + before[layer + 1] for layer in range(layers - 1)]
        return [_MARGIN + before[0] + x for x in columns(widths, gaps)]

    @cached_property
    def top(self) -> float:
        """What must be added to a height of the layout to be on the paper."""
        heights = self.layout.y_of.values()
        highest = min(heights, default=0.0) - _BOX / 2 - _PAD - _TITLE
        return _MARGIN - highest

    @property
    def size(self) -> tuple[float, float]:
        ends = [self._right(name) for name in self.graph.names]
        ends += [
            self._right(region.operators[-1]) + _PAD + _pill_width(_last_words(region))
            for region in self.plan.regions
        ]
        passing = [route.y for route in self.layout.routes if route.over]
        lowest = max([*self.layout.y_of.values(), *passing], default=0.0)
        width = max(ends, default=0.0) + _MARGIN
        height = self.top + lowest + _BOX / 2 + _PAD + _MARGIN + 46
        return max(width, 560.0), height

    def _y(self, name: str) -> float:
        return self.top + self.layout.y_of[name]

    def _left(self, name: str) -> float:
        return self.middles[self.layout.layer_of[name]] - self.widths[name] / 2

    def _right(self, name: str) -> float:
        return self._left(name) + self.widths[name]

    def _about(self, name: str) -> str:
        label = self.graph[name].kind.label
        known: Operator | None = self.known.get(name)
        if known is not None and known.state == "keyed":
            return f"{label} by {', '.join(known.key)}"
        if known is not None and known.state == "global":
            return f"{label}, one state"
        return label

    def _region(self, index: int, region: Region) -> str:
        tint = _TINTS[index % len(_TINTS)]
        left = self._left(region.operators[0]) - _PAD
        right = self._right(region.operators[-1]) + _PAD
        y = self._y(region.operators[0]) - _BOX / 2 - _PAD - _TITLE + 6
        height = _BOX + 2 * _PAD + _TITLE - 6
        key = f" by {', '.join(region.key)}" if region.key else ""
        return (
            f'<g data-region="{escape(region.name)}">'
            f'<rect x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" '
            f'height="{height:.1f}" rx="14" fill="{tint.fill}" stroke="{tint.ink}" '
            f'stroke-opacity="0.45" stroke-width="1.3" stroke-dasharray="6 4"/>'
            + _text(
                left + 14, y + 19, f"{region.name}{key}", Style(12.5, tint.ink, 600)
            )
            + "</g>"
        )

    def _stream(self, route: Route) -> str:
        start = (self._right(route.producer), self._y(route.producer))
        end = (self._left(route.consumer) - 7, self._y(route.consumer))
        path = f"M{start[0]:.1f},{start[1]:.1f}"
        if route.over is None:
            path += _curve(start, end)
        else:
            first, last = (self.middles[layer] for layer in route.over)
            y = self.top + route.y
            path += _curve(start, (first - 24, y)) + f" L{last + 24:.1f},{y:.1f}"
            path += _curve((last + 24, y), end)
        x, y = end
        return (
            f'<path d="{path}" fill="none" stroke="{_LINE}" stroke-width="1.8"/>'
            f'<path d="M{x:.1f},{y - 4.5:.1f} l7.5,4.5 l-7.5,4.5 z" fill="{_LINE}"/>'
        )

    def _operator(self, name: str) -> Iterator[str]:
        left, y = self._left(name), self._y(name) - _BOX / 2
        known = self.known.get(name)
        state = "stateless" if known is None else known.state
        ink = {"stateless": _FAINT, "keyed": self._ink(name), "global": _GLOBAL}[state]
        edge = _LINE if state == "stateless" else ink
        yield (
            f'<g data-operator="{escape(name)}">'
            f'<rect x="{left:.1f}" y="{y:.1f}" width="{self.widths[name]:.1f}" '
            f'height="{_BOX}" rx="8" fill="#ffffff" stroke="{edge}" stroke-width="1.3"/>'
        )
        if state != "stateless":
            yield (
                f'<path d="M{left + 8:.1f},{y:.1f} h-0.5 a7.5,7.5 0 0 0 -7.5,7.5 '
                f'v{_BOX - 15} a7.5,7.5 0 0 0 7.5,7.5 h0.5 z" fill="{ink}"/>'
            )
        middle = left + self.widths[name] / 2 + (3 if state != "stateless" else 0)
        yield _text(middle, y + 20, name, Style(13.5, _INK, 600, "middle"))
        yield _text(middle, y + 36, self._about(name), Style(11, ink, 400, "middle"))
        yield "</g>"

    def _ink(self, name: str) -> str:
        return _TINTS[self.tint_of.get(self.region_of.get(name, ""), 0)].ink

    def _joints(self, index: int, region: Region) -> Iterator[str]:
        ink = _TINTS[index % len(_TINTS)].ink
        head, tail = region.operators[0], region.operators[-1]
        y = self._y(head)
        words = _first_words(region)
        if words:
            middle = self._left(head) - _PAD - _pill_width(words) / 2 + _OVERLAP
            yield _pill(middle, y, words, ink)
        words = _last_words(region)
        middle = self._right(tail) + _PAD + _pill_width(words) / 2 - _OVERLAP
        yield _pill(middle, y, words, ink)

    def _legend(self) -> Iterator[str]:
        _, height = self.size
        y = height - 26
        x = _MARGIN
        marks = (
            (_TINTS[0].fill, _TINTS[0].ink, "parallel region"),
            (_TINTS[0].ink, _TINTS[0].ink, "state per key"),
            (_GLOBAL, _GLOBAL, "one state for all items"),
        )
        for fill, stroke, words in marks:
            yield (
                f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="13" height="13" rx="3.5" '
                f'fill="{fill}" stroke="{stroke}" stroke-opacity="0.6"/>'
            )
            yield _text(x + 20, y + 1, words, Style(11.5, _FAINT))
            x += 46 + 6.4 * len(words)


def _curve(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return a curve that leaves and arrives horizontally."""
    bend = max((end[0] - start[0]) / 2, 12.0)
    return (
        f" C{start[0] + bend:.1f},{start[1]:.1f} {end[0] - bend:.1f},{end[1]:.1f} "
        f"{end[0]:.1f},{end[1]:.1f}"
    )


def _first_words(region: Region) -> tuple[str, ...]:
    """Return how a region begins; a shuffle is told by the region before it."""
    return () if region.first_joint == "shuffle" else (region.first_joint,)


def _last_words(region: Region) -> tuple[str, ...]:
    return (region.last_joint, region.ordering)


def _pill_width(words: Sequence[str]) -> float:
    return 6.3 * max(len(word) for word in words) + 16 if words else 0.0


def _pill(x: float, y: float, words: Sequence[str], ink: str) -> str:
    """Return a label of one or two lines."""
    width, height = _pill_width(words), 6 + 13 * len(words)
    top = y - height / 2
    lines = (
        _text(x, top + 13 + 13 * index, word.replace("_", " "), style)
        for index, (word, style) in enumerate(
            zip(
                words,
                (Style(10.5, ink, 600, "middle"), Style(10.5, ink, 400, "middle")),
                strict=False,
            )
        )
    )
    return (
        f'<g><rect x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{height}" rx="{min(height / 2, 10)}" fill="#ffffff" stroke="{ink}" '
        f'stroke-opacity="0.55"/>' + "".join(lines) + "</g>"
    )


def _text(x: float, y: float, words: str, style: Style) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{style.size}" '
        f'font-weight="{style.weight}" fill="{style.ink}" '
        f'text-anchor="{style.anchor}">{escape(words)}</text>'
    )
