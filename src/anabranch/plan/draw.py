"""A program and its regions as a picture: a layered drawing from left to right, as SVG.

A layer is a column: an operator is to the right of all its producers. A *bar* is drawn
as one straight horizontal piece: a region, a chain of sequential operators, or the part
of a stream that passes over layers. Bars are ordered from top to bottom so that
connected ones are close, then moved apart until none touch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise
from typing import NamedTuple

from anabranch.graph.graph import Graph, streams_into, streams_out_of
from anabranch.plan.plan import Plan, PlanOperator, Region

Heights = Mapping[str | None, float]  # region, or None for the rest -> height of a bar

_STREAM_HEIGHT = 18.0
_ROUNDS = 12
_MANY = 400  # bars
_SETTLING = 80  # rounds until the heights converge, for readable drawings


class DrawnRoute(NamedTuple):
    """A stream: from one operator to another, at `y` where it passes over layers."""

    producer: str
    consumer: str
    over: tuple[int, int] | None
    y: float


@dataclass(frozen=True)
class DrawingLayout:
    """The layer (column) and the height of every operator, and the route of each
    stream.
    """

    layer_of: Mapping[str, int]
    y_of: Mapping[str, float]
    routes: tuple[DrawnRoute, ...]


class _Bar(NamedTuple):
    name: str
    first: int
    last: int
    height: float


def lay_out(
    graph: Graph, region_of: Mapping[str, str], heights: Heights
) -> DrawingLayout:
    """Return the place of every operator.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kind import Kind
    >>> g = Graph((Op("a", Kind()), Op("b", Kind(), (Output("a"),)),
    ...            Op("c", Kind(), (Output("a"),))))
    >>> made = lay_out(g, {}, {None: 40.0})
    >>> made.layer_of, made.y_of["b"] < made.y_of["a"] < made.y_of["c"]
    ({'a': 0, 'b': 1, 'c': 1}, True)
    """
    layer_of = _layers(graph)
    bar_of, bars = _bars(graph, layer_of, region_of, heights)
    links: list[tuple[str, str]] = []
    passing: list[tuple[str, str, str | None]] = []
    for index, edge in enumerate(graph.edges):
        one, two = edge.producer.operator, edge.consumer.operator
        gap = (layer_of[one] + 1, layer_of[two] - 1)
        if gap[0] > gap[1]:
            passing.append((one, two, None))
            links.append((bar_of[one], bar_of[two]))
        else:
            stream = f"stream {index}"
            bars[stream] = _Bar(stream, *gap, _STREAM_HEIGHT)
            passing.append((one, two, stream))
            links += [(bar_of[one], stream), (stream, bar_of[two])]
    neighbours = _neighbours(bars, links)
    y_of_bar = _heights(_rank(bars, neighbours), neighbours)
    routes = tuple(
        DrawnRoute(one, two, None, 0.0)
        if stream is None
        else DrawnRoute(
            one, two, (bars[stream].first, bars[stream].last), y_of_bar[stream]
        )
        for one, two, stream in passing
    )
    y_of = {name: y_of_bar[bar] for name, bar in bar_of.items()}
    return DrawingLayout(layer_of, y_of, routes)


def _layers(graph: Graph) -> dict[str, int]:
    """Return the longest path to each operator; sources are close to their
    consumers.
    """
    layer_of: dict[str, int] = {}
    for op in graph:
        producers = graph.producers(op.name)
        layer_of[op.name] = max((layer_of[name] + 1 for name in producers), default=0)
    for op in graph:
        consumers = graph.consumers(op.name)
        if not op.inputs and consumers:
            layer_of[op.name] = min(layer_of[name] for name in consumers) - 1
    return layer_of


def _bars(
    graph: Graph,
    layer_of: Mapping[str, int],
    region_of: Mapping[str, str],
    heights: Heights,
) -> tuple[dict[str, str], dict[str, _Bar]]:
    """Return the bar of each operator, and the bars."""
    bar_of: dict[str, str] = {}
    bars: dict[str, _Bar] = {}
    for op in graph:
        region = region_of.get(op.name)
        bar = op.name
        match graph.producers(op.name):
            case (producer,) if (
                len(graph.consumers(producer)) == 1
                and region_of.get(producer) == region
                and layer_of[producer] == layer_of[op.name] - 1
            ):
                bar = bar_of[producer]
        bar_of[op.name] = bar
        first = bars[bar].first if bar in bars else layer_of[op.name]
        bars[bar] = _Bar(bar, first, layer_of[op.name], heights[region])
    return bar_of, bars


def _neighbours(
    bars: Mapping[str, _Bar], links: Sequence[tuple[str, str]]
) -> dict[str, list[str]]:
    neighbours: dict[str, list[str]] = {name: [] for name in bars}
    for one, two in links:
        if one != two:
            neighbours[one].append(two)
            neighbours[two].append(one)
    return neighbours


def _rank(bars: Mapping[str, _Bar], neighbours: Mapping[str, list[str]]) -> list[_Bar]:
    """Return the bars from top to bottom, each close to the middle of its neighbours.

    The barycentre is computed repeatedly; the round with the shortest streams wins.
    """
    first_seen = {name: index for index, name in enumerate(_walk(bars, neighbours))}
    rank: dict[str, float] = {name: float(first_seen[name]) for name in bars}
    best, least = dict(rank), _length(rank, neighbours)
    for _ in range(_ROUNDS):
        wanted = {
            name: (rank[name] + _mean([rank[n] for n in near], rank[name])) / 2
            for name, near in neighbours.items()
        }
        ordered = sorted(bars, key=lambda name: (wanted[name], first_seen[name]))
        rank = {name: float(index) for index, name in enumerate(ordered)}
        length = _length(rank, neighbours)
        if length < least:
            best, least = dict(rank), length
    return [bars[name] for name in sorted(bars, key=best.__getitem__)]


def _walk(bars: Mapping[str, _Bar], neighbours: Mapping[str, list[str]]) -> list[str]:
    """Return the bars depth-first, so that branches start in the order written."""
    seen: dict[str, None] = {}
    for start in bars:
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen[name] = None
                waiting.extend(reversed(neighbours[name]))
    return list(seen)


def _length(rank: Mapping[str, float], neighbours: Mapping[str, list[str]]) -> float:
    return sum(abs(rank[a] - rank[b]) for a, near in neighbours.items() for b in near)


def _heights(
    ranked: Sequence[_Bar], neighbours: Mapping[str, list[str]]
) -> dict[str, float]:
    """Return the height of each bar: near its neighbours, without overlaps.

    Packing downwards and packing upwards both keep the bars apart, and so does the mean
    of the two, which ends each round.
    """
    y_of = _pack(ranked, dict.fromkeys((bar.name for bar in ranked), 0.0))
    for _ in range(_SETTLING if len(ranked) < _MANY else _ROUNDS):
        wanted = {
            name: (y_of[name] + _mean([y_of[n] for n in near], y_of[name])) / 2
            for name, near in neighbours.items()
        }
        down = _pack(ranked, wanted)
        upside_down = {name: -y for name, y in wanted.items()}
        up = _pack(ranked[::-1], upside_down)
        y_of = {name: (down[name] - up[name]) / 2 for name in y_of}
    return y_of


def _pack(ranked: Sequence[_Bar], wanted: Mapping[str, float]) -> dict[str, float]:
    """Return the heights at or below the wanted ones at which no bars overlap."""
    above: dict[int, _Bar] = {}
    y_of: dict[str, float] = {}
    for bar in ranked:
        y = wanted[bar.name]
        for layer in range(bar.first, bar.last + 1):
            if layer in above:
                other = above[layer]
                y = max(y, y_of[other.name] + (other.height + bar.height) / 2)
            above[layer] = bar
        y_of[bar.name] = y
    return y_of


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def columns(widths: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return the middle of each column.

    >>> columns([100, 60], [40])
    [50.0, 170.0]
    """
    middles = [widths[0] / 2] if widths else []
    for (one, two), gap in zip(pairwise(widths), gaps, strict=True):
        middles.append(middles[-1] + one / 2 + gap + two / 2)
    return middles


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
    """The style of a text."""

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
    >>> from anabranch.graph.kind import Kind
    >>> from anabranch.graph.kind import Push
    >>> alone = PlanOperator("a", "stateless", (), 1, Push(1, 1), None, ())
    >>> svg = draw_svg(Graph((Op("a", Kind()),)), Plan((alone,), (), (), (), ()))
    >>> svg.startswith("<svg "), ">a</text>" in svg
    (True, True)
    """
    return "\n".join(_Drawing(graph, plan).lines())


class _Drawing:
    """The geometry of a drawing; `lines` yields it from the back to the front."""

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
        self.layout: DrawingLayout = lay_out(graph, self.region_of, heights)

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
        before = dict.fromkeys(range(layers), 0.0)  # space for joints at its left
        after = dict.fromkeys(range(layers), 0.0)
        for region in self.plan.regions:
            inside = [layer_of[name] for name in region.operators]
            first, last = min(inside), max(inside)
            before[first] = max(before[first], _PAD + _pill_width(_first_words(region)))
            after[last] = max(after[last], _PAD + _pill_width(_last_words(region)))
        gaps = [_GAP + after[layer] + before[layer + 1] for layer in range(layers - 1)]
        return [_MARGIN + before[0] + x for x in columns(widths, gaps)]

    @cached_property
    def top(self) -> float:
        """The vertical offset from the layout to the drawing."""
        heights = self.layout.y_of.values()
        highest = min(heights, default=0.0) - _BOX / 2 - _PAD - _TITLE
        return _MARGIN - highest

    @property
    def size(self) -> tuple[float, float]:
        ends = [self._find_right(name) for name in self.graph.names]
        ends += [
            max(map(self._find_right, region.operators))
            + _PAD
            + _pill_width(_last_words(region))
            for region in self.plan.regions
        ]
        passing = [route.y for route in self.layout.routes if route.over]
        lowest = max([*self.layout.y_of.values(), *passing], default=0.0)
        width = max(ends, default=0.0) + _MARGIN
        height = self.top + lowest + _BOX / 2 + _PAD + _MARGIN + 46
        return max(width, 560.0), height

    def _y(self, name: str) -> float:
        return self.top + self.layout.y_of[name]

    def _find_left(self, name: str) -> float:
        return self.middles[self.layout.layer_of[name]] - self.widths[name] / 2

    def _find_right(self, name: str) -> float:
        return self._find_left(name) + self.widths[name]

    def _about(self, name: str) -> str:
        label = self.graph[name].kind.label
        known: PlanOperator | None = self.known.get(name)
        if known is not None and known.state == "keyed":
            return f"{label} by {', '.join(known.key)}"
        if known is not None and known.state == "global":
            return f"{label}, one state"
        return label

    def _region(self, index: int, region: Region) -> str:
        """Return the area of a region: its frames, bands between them, and what ends it."""
        tint = _TINTS[index % len(_TINTS)]
        groups = self._find_groups(region)
        place = {name: at for at, group in enumerate(groups) for name in group}
        bands = [
            f'<path d="{self._way(route)}" fill="none" stroke="{tint.fill}" '
            f'stroke-width="{_PAD:.0f}"/>'
            for route in self.layout.routes
            if place.keys() >= {route.producer, route.consumer}
            and place[route.producer] != place[route.consumer]
        ]
        key = f" by {', '.join(region.key)}" if region.key else ""
        title = Style(12.5, tint.ink, 600)
        frames = list(map(self._frame, groups))
        ends = f"<title>stops before {escape(region.ends)}</title>"
        return (
            f'<g data-region="{escape(region.name)}">'
            + (ends if region.ends else "")
            + "".join(bands)
            + "".join(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{height:.1f}" rx="14" fill="{tint.fill}" stroke="{tint.ink}" '
                f'stroke-opacity="0.45" stroke-width="1.3" stroke-dasharray="6 4"/>'
                + _text(x + 14, y + 19, f"{region.name}{key}", title)
                for x, y, width, height in frames
            )
            + "</g>"
        )

    def _find_groups(self, region: Region) -> list[tuple[str, ...]]:
        """Return the operators of a region that share a frame.

        All of them do, unless that would take in other operators: then connected ones do
        as long as it would not.
        """
        if not self._has_strangers(region, self._frame(region.operators)):
            return [region.operators]
        group_of: dict[str, tuple[str, ...]] = {n: (n,) for n in region.operators}
        for name in region.operators:
            for producer in self.graph.producers(name):
                before, own = group_of.get(producer), group_of[name]
                if before is None or before == own:
                    continue
                both = (*before, *own)
                if not self._has_strangers(region, self._frame(both)):
                    group_of |= dict.fromkeys(both, both)
        return list(dict.fromkeys(group_of.values()))

    def _frame(self, operators: Sequence[str]) -> tuple[float, float, float, float]:
        """Return the frame of operators: left, top, width and height."""
        left = min(map(self._find_left, operators)) - _PAD
        right = max(map(self._find_right, operators)) + _PAD
        heights = [self._y(name) for name in operators]
        top = min(heights) - _BOX / 2 - _PAD - _TITLE + 6
        height = max(heights) - min(heights) + _BOX + 2 * _PAD + _TITLE - 6
        return left, top, right - left, height

    def _has_strangers(
        self, region: Region, frame: tuple[float, float, float, float]
    ) -> bool:
        """Tell whether operators outside the region reach into a frame."""
        left, top, width, height = frame
        return any(
            self._find_left(name) < left + width
            and self._find_right(name) > left
            and self._y(name) - _BOX / 2 < top + height
            and self._y(name) + _BOX / 2 > top
            for name in self.graph.names
            if self.region_of.get(name) != region.name
        )

    def _way(self, route: DrawnRoute) -> str:
        """Return the path of a stream."""
        start = (self._find_right(route.producer), self._y(route.producer))
        end = (self._find_left(route.consumer) - 7, self._y(route.consumer))
        path = f"M{start[0]:.1f},{start[1]:.1f}"
        if route.over is None:
            return path + _curve(start, end)
        first, last = (self.middles[layer] for layer in route.over)
        y = self.top + route.y
        path += _curve(start, (first - 24, y)) + f" L{last + 24:.1f},{y:.1f}"
        return path + _curve((last + 24, y), end)

    def _stream(self, route: DrawnRoute) -> str:
        x, y = self._find_left(route.consumer) - 7, self._y(route.consumer)
        return (
            f'<path d="{self._way(route)}" fill="none" stroke="{_LINE}" '
            f'stroke-width="1.8"/>'
            f'<path d="M{x:.1f},{y - 4.5:.1f} l7.5,4.5 l-7.5,4.5 z" fill="{_LINE}"/>'
        )

    def _operator(self, name: str) -> Iterator[str]:
        left, y = self._find_left(name), self._y(name) - _BOX / 2
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
        """Yield the marks of the streams that enter and leave a region, and its joints."""
        ink = _TINTS[index % len(_TINTS)].ink
        for edge in streams_into(self.graph, region.operators):
            name = edge.consumer.operator
            yield _mark(self._find_left(name) - _PAD, self._y(name), ink)
        for edge in streams_out_of(self.graph, region.operators):
            name = edge.producer.operator
            yield _mark(self._find_right(name), self._y(name), ink)
        heights = [self._y(name) for name in region.operators]
        middle_y = (min(heights) + max(heights)) / 2
        apart = self._has_strangers(region, self._frame(region.operators))
        words = _first_words(region)
        if words:
            first = min(region.operators, key=self._find_left)
            middle = self._find_left(first) - _PAD - _pill_width(words) / 2 + _OVERLAP
            yield _pill(middle, self._y(first) if apart else middle_y, words, ink)
        words = _last_words(region)
        last = max(region.operators, key=self._find_right)
        middle = self._find_right(last) + _PAD + _pill_width(words) / 2 - _OVERLAP
        yield _pill(middle, self._y(last) if apart else middle_y, words, ink)

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
    """Return the label at the start of a region; a shuffle is labelled by the region
    before it.
    """
    return () if region.first_joint == "shuffle" else (region.first_joint,)


def _last_words(region: Region) -> tuple[str, ...]:
    return (region.last_joint, region.ordering)


def _mark(x: float, y: float, ink: str) -> str:
    """Return the dot where a stream enters or leaves a region."""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{ink}"/>'


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
