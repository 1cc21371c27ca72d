"""Where each operator stands in a drawing: a layered layout from left to right.

A layer is a column: an operator stands right of all its producers. A *bar* is what is
drawn as one straight horizontal piece: a region, a chain of sequential operators, or
the stretch of a stream that passes over layers. Bars are ordered from top to bottom so
that connected ones lie close, then moved apart until none touch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from anabranch.graph.graph import Graph

Heights = Mapping[str | None, float]  # region, or None for the rest -> height of a bar

_STREAM_HEIGHT = 18.0
_ROUNDS = 12
_MANY = 400  # bars
_SETTLING = 80  # rounds until the heights hardly move, for drawings that one can read


class Route(NamedTuple):
    """A stream: from one operator to another, at `y` where it passes over layers."""

    producer: str
    consumer: str
    over: tuple[int, int] | None
    y: float


@dataclass(frozen=True)
class Layout:
    """The layer (column) and the height of every operator, and the way of each stream."""

    layer_of: Mapping[str, int]
    y_of: Mapping[str, float]
    routes: tuple[Route, ...]


class _Bar(NamedTuple):
    name: str
    first: int
    last: int
    height: float


def lay_out(graph: Graph, region_of: Mapping[str, str], heights: Heights) -> Layout:
    """Return the place of every operator.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kinds import Kind
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
    y_of_bar = _heights(_ranked(bars, neighbours), neighbours)
    routes = tuple(
        Route(one, two, None, 0.0)
        if stream is None
        else Route(one, two, (bars[stream].first, bars[stream].last), y_of_bar[stream])
        for one, two, stream in passing
    )
    y_of = {name: y_of_bar[bar] for name, bar in bar_of.items()}
    return Layout(layer_of, y_of, routes)


def _layers(graph: Graph) -> dict[str, int]:
    """Return the longest way to each operator; sources stand close to their consumers."""
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


def _ranked(
    bars: Mapping[str, _Bar], neighbours: Mapping[str, list[str]]
) -> list[_Bar]:
    """Return the bars from top to bottom, each close to the middle of its neighbours.

    The barycentre is taken again and again; the round with the shortest streams wins.
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
    """Return the bars depth-first, so that branches start out in the order written."""
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
    """Return the height of each bar: near its neighbours, clear of all others.

    Packing downwards and packing upwards both keep the bars apart, and so does the
    mean of the two, which is where each round ends.
    """
    y_of = _packed(ranked, dict.fromkeys((bar.name for bar in ranked), 0.0))
    for _ in range(_SETTLING if len(ranked) < _MANY else _ROUNDS):
        wanted = {
            name: (y_of[name] + _mean([y_of[n] for n in near], y_of[name])) / 2
            for name, near in neighbours.items()
        }
        down = _packed(ranked, wanted)
        upside_down = {name: -y for name, y in wanted.items()}
        up = _packed(ranked[::-1], upside_down)
        y_of = {name: (down[name] - up[name]) / 2 for name in y_of}
    return y_of


def _packed(ranked: Sequence[_Bar], wanted: Mapping[str, float]) -> dict[str, float]:
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
