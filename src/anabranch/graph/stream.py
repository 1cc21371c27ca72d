"""`Stream`: the handle that users chain operators on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anabranch.graph import windows
from anabranch.graph.blocks import Block
from anabranch.graph.custom import Apply, Operator, Scan
from anabranch.graph.drafts import Draft, build_graph
from anabranch.graph.endings import Endings
from anabranch.graph.iterate import Iterate
from anabranch.graph.joins import Join
from anabranch.graph.kinds import (
    Filter,
    FlatMap,
    Kind,
    Map,
    Punctuate,
    Split,
)
from anabranch.graph.site import call_site
from anabranch.graph.sources import Given
from anabranch.graph.types import (
    made_by,
    returned_element_type,
    returned_pair_type,
    returned_type,
)
from anabranch.graph.windows import Aggregate, Column, Late, Window


@dataclass(frozen=True, eq=False)
class Stream(Endings):
    """An ordered stream of items, and the operators that can be put on it.

    Each method returns a new stream and takes `name=`. Where a function has no
    annotation, `type=` states the tuple type of its output.

    >>> import anabranch as ab
    >>> out = ab.from_iterable([1, 2, 3]).map(lambda n: n * n).to_list()
    >>> _ = ab.run(out, on="sequential")
    >>> out.items
    [1, 4, 9]
    """

    draft: Draft
    port: int = 0
    key: tuple[str, ...] = ()
    type: Any = None

    def _then(self, kind: Kind, type: Any, name: str | None) -> Stream:
        draft = Draft(
            kind, ((self.draft, self.port),), self.key, type, call_site(), name
        )
        return Stream(draft, key=self.key, type=type)

    def map(
        self,
        f: Callable[[Any], Any],
        *,
        type: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Give `f(item)` for each item.

        >>> import anabranch as ab
        >>> ab.testing.outputs(ab.from_iterable([1, 2]).map(lambda n: n + 1))
        [2, 3]
        """
        return self._then(Map(f), type or returned_type(f), name)

    def filter(self, p: Callable[[Any], bool], *, name: str | None = None) -> Stream:
        """Keep the items for which `p(item)` is true.

        >>> import anabranch as ab
        >>> ab.testing.outputs(ab.from_iterable([1, 2]).filter(lambda n: n > 1))
        [2]
        """
        return self._then(Filter(p), self.type, name)

    def flat_map(
        self,
        f: Callable[[Any], Iterable[Any]],
        *,
        type: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Give every item of `f(item)`, in order.

        >>> import anabranch as ab
        >>> ab.testing.outputs(ab.from_iterable(["a b", "c"]).flat_map(str.split))
        ['a', 'b', 'c']
        """
        return self._then(FlatMap(f), type or returned_element_type(f), name)

    def key_by(self, *attributes: str) -> Stream:
        """Keep the state of what follows apart per value of `attributes`.

        The key stays in force until another `key_by`; `key_by()` ends it.

        >>> import anabranch as ab
        >>> ab.from_iterable([]).key_by("symbol").key
        ('symbol',)
        """
        for one in attributes:
            if not isinstance(one, str):
                msg = (
                    f"a key must be named by attributes of the items; got {one!r}; "
                    f"compute what is no attribute in a map before, and name it"
                )
                raise TypeError(msg)
        return replace(self, key=attributes)

    def scan(
        self,
        step: Callable[[Any, Any], tuple[Any, Any]],
        initial: Any,
        *,
        type: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Carry a state along: `step(state, item)` gives the next state and an output.

        >>> import anabranch as ab
        >>> sums = ab.from_iterable([1, 2, 3]).scan(lambda s, n: (s + n, s + n), 0)
        >>> ab.testing.outputs(sums)
        [1, 3, 6]
        """
        return self._then(Scan(step, initial), type or returned_pair_type(step), name)

    def apply(
        self,
        operator: type[Operator],
        *arguments: Any,
        type: Any = None,
        name: str | None = None,
        **keywords: Any,
    ) -> Stream:
        """Run an `Operator` class; further arguments go to its constructor.

        >>> import anabranch as ab
        >>> class Twice(ab.Operator):
        ...     def process(self, item):
        ...         return [item, item]
        >>> ab.testing.outputs(ab.from_iterable("ab").apply(Twice))
        ['a', 'a', 'b', 'b']
        """
        kind = Apply(operator, arguments, tuple(sorted(keywords.items())))
        process = getattr(operator, "process", None)
        inferred = None if process is None else returned_element_type(process)
        return self._then(kind, type or inferred, name)

    def window(
        self,
        *,
        count: int | None = None,
        time: float | None = None,
        delta: float | None = None,
        on: str | None = None,
        every: float | None = None,
        punctuation: bool = False,
        late: Late = "error",
    ) -> WindowedStream:
        """Group items; follow with `.aggregate`.

        `count` groups so many items, `time` the items whose attribute `on` falls into
        the same span (aligned to multiples of it), `delta` the items that lie closer
        to the first one than that, `punctuation` what stands between punctuations.
        `every` makes the window slide. `late` says what happens to an item whose time
        window was emitted already: an error, dropped, or put into the current window.

        >>> import anabranch as ab
        >>> pairs = ab.from_iterable([1, 2, 3]).window(count=2).aggregate(list)
        >>> ab.testing.outputs(pairs)
        [[1, 2], [3]]
        """
        return WindowedStream(
            self, Window(count, time, delta, on, every, punctuation, late)
        )

    def join(
        self,
        right: Stream,
        *,
        on: str | Sequence[str] = (),
        left_window: Window | int,
        right_window: Window | int,
        match: Callable[[Any, Any], bool] | None = None,
        into: Callable[[Any, Any], Any] | None = None,
        type: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Join with another stream; see `ab.Window` for the windows (a number: count).

        >>> import anabranch as ab
        >>> left, right = ab.from_iterable([1, 2]), ab.from_iterable([10, 20])
        >>> ab.testing.outputs(left.join(right, left_window=1, right_window=1))
        [(1, 10), (2, 10), (2, 20)]
        """
        kind = Join(
            on=(on,) if isinstance(on, str) else tuple(on),
            left_window=_as_window(left_window),
            right_window=_as_window(right_window),
            match=match,
            into=into,
        )
        return gather(kind, (self, right), type or made_by(into), name, kind.on)

    def split(
        self, route: Callable[[Any], Any], n: int, *, name: str | None = None
    ) -> list[Stream]:
        """Divide into `n` streams; `route(item)` gives an index or several.

        >>> import anabranch as ab
        >>> even, odd = ab.from_iterable([1, 2, 3]).split(lambda k: k % 2, 2)
        >>> ab.testing.outputs(odd)
        [1, 3]
        """
        whole = self._then(Split(route, n), self.type, name)
        return [replace(whole, port=port) for port in range(n)]

    def punctuate(
        self, when: Callable[[Any], bool], *, name: str | None = None
    ) -> Stream:
        """Put a window punctuation after each item for which `when(item)` is true.

        >>> import anabranch as ab
        >>> lines = ab.from_iterable(["a", ".", "b"]).punctuate(lambda s: s == ".")
        >>> ab.testing.outputs(lines.window(punctuation=True).aggregate("".join))
        ['a.', 'b']
        """
        return self._then(Punctuate(when), self.type, name)

    def block(
        self,
        f: Callable[[Sequence[Any]], Any],
        *,
        pop: int,
        push: int,
        peek: int | None = None,
        type: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Take `pop` items at a time, see `peek` of them, give `push` items.

        >>> import anabranch as ab
        >>> sums = ab.from_iterable([1, 2, 3, 4]).block(lambda w: [sum(w)], pop=2, push=1)
        >>> ab.testing.outputs(sums)
        [3, 7]
        """
        kind = Block(f, pop, push, pop if peek is None else peek)
        return self._then(kind, type or returned_element_type(f), name)

    def pipe(self, composite: Callable[[Stream], Stream]) -> Stream:
        """Put a composite (`ab.pipeline`, `ab.split_join`, any function) here.

        >>> import anabranch as ab
        >>> inc = ab.pipeline(lambda s: s.map(lambda n: n + 1))
        >>> ab.testing.outputs(ab.from_iterable([1]).pipe(inc))
        [2]
        """
        return composite(self)

    def iterate(
        self,
        body: Callable[[Stream], Stream],
        *,
        rounds: int | None = None,
        until: Callable[[list[Any]], bool] | None = None,
        name: str | None = None,
    ) -> Stream:
        """Send each window, or the whole bounded stream, through `body` in rounds.

        >>> import anabranch as ab
        >>> doubled = ab.from_iterable([1, 3]).iterate(
        ...     lambda s: s.map(lambda n: n * 2), rounds=3)
        >>> ab.testing.outputs(doubled)
        [8, 24]
        """
        site = call_site()
        given = Stream(
            Draft(Given(), (), self.key, self.type, site, None), 0, self.key, self.type
        )
        result = body(given)
        sink = result.to_list()
        kind = Iterate(build_graph([sink]), rounds, until)
        return self._then(kind, result.type, name)


@dataclass(frozen=True, eq=False)
class WindowedStream:
    """A stream whose items are grouped; made by `Stream.window`."""

    stream: Stream
    window: Window

    def aggregate(
        self,
        f: Callable[[list[Any]], Any] | None = None,
        *,
        into: Callable[..., Any] | None = None,
        type: Any = None,
        name: str | None = None,
        **columns: Column,
    ) -> Stream:
        """Give one output for each window: `f(items)`, or the named columns.

        >>> import anabranch as ab
        >>> from typing import NamedTuple
        >>> class Trade(NamedTuple):
        ...     symbol: str
        ...     volume: int
        >>> trades = ab.from_iterable([Trade("A", 1), Trade("A", 2)], Trade)
        >>> totals = trades.key_by("symbol").window(count=2)
        >>> ab.testing.outputs(
        ...     totals.aggregate(symbol=ab.any("symbol"), total=ab.sum("volume")))
        [Row(symbol='A', total=3)]
        """
        kind = Aggregate(self.window, f, tuple(columns.items()), into)
        made = returned_type(f) if f is not None else made_by(into)
        if f is None and into is None:
            made = windows.row_type(tuple(columns))
        return self.stream._then(kind, type or made, name)  # noqa: SLF001


def source(
    kind: Kind,
    type: Any,
    name: str | None,
) -> Stream:
    """Return the stream of a new source."""
    return Stream(Draft(kind, (), (), type, call_site(), name), type=type)


def gather(
    kind: Kind,
    streams: Sequence[Stream],
    type: Any,
    name: str | None,
    key: tuple[str, ...] = (),
) -> Stream:
    """Return the stream of an operator that takes several."""
    inputs = tuple((stream.draft, stream.port) for stream in streams)
    keys = {stream.key for stream in streams}
    kept = keys.pop() if len(keys) == 1 else ()
    return Stream(
        Draft(kind, inputs, key, type, call_site(), name), key=kept, type=type
    )


def _as_window(window: Window | int) -> Window:
    return Window(count=window) if isinstance(window, int) else window
