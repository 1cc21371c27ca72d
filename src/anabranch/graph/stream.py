"""`Stream`: the handle that users chain operators on.

A chain of calls builds drafts that point back to their inputs; nothing is global and
nothing runs. `build_graph` walks back from the sinks and gives the `Graph`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.graph import windows
from anabranch.graph.blocks import Block
from anabranch.graph.custom import Apply, Operator, Scan
from anabranch.graph.graph import Graph, Op, Output
from anabranch.graph.iterate import Iterate
from anabranch.graph.joins import Join
from anabranch.graph.kinds import (
    Barrier,
    Filter,
    FlatMap,
    Kind,
    Map,
    Merge,
    Punctuate,
    Split,
    Union,
)
from anabranch.graph.sinks import (
    ForEach,
    SinkKind,
    ToKafka,
    ToList,
    ToSocket,
    ToSpark,
    WriteFiles,
    WritePostgres,
)
from anabranch.graph.site import Site, call_site
from anabranch.graph.sources import Given, RowFormat
from anabranch.graph.types import (
    fields_of,
    returned_element_type,
    returned_pair_type,
    returned_type,
)
from anabranch.graph.windows import Aggregate, Column, Late, Window

_serial = itertools.count()


@dataclass(eq=False)
class Draft:
    """An operator that has been written but does not stand in a graph yet."""

    kind: Kind
    inputs: tuple[tuple[Draft, int], ...]
    key: tuple[str, ...]
    type: Any
    site: Site
    name: str | None
    serial: int = field(default_factory=lambda: next(_serial))
    fuse_with: Draft | None = None


@dataclass(frozen=True, eq=False)
class Stream:
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
        return _fan_in(kind, (self, right), type or _made_by(into), name, kind.on)

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

    def _sink(self, kind: SinkKind, name: str | None) -> Sink:
        return Sink(self._then(kind, None, name).draft)

    def to_list(self, *, name: str | None = None) -> Sink:
        """Collect the items; they are in `.items` after the run.

        >>> import anabranch as ab
        >>> out = ab.from_iterable("ab").to_list()
        >>> _ = ab.run(out, on="sequential")
        >>> out.items
        ['a', 'b']
        """
        return self._sink(ToList(), name)

    def for_each(self, f: Callable[[Any], Any], *, name: str | None = None) -> Sink:
        """Call `f(item)` for each item, in order, in this process.

        >>> import anabranch as ab
        >>> _ = ab.run(ab.from_iterable("ab").for_each(print), on="sequential")
        a
        b
        """
        return self._sink(ForEach(f), name)

    def write_csv(self, path: str, *, name: str | None = None) -> Sink:
        r"""Write comma-separated values: a directory of parts, or one `.csv` file.

        >>> import anabranch as ab, pathlib, tempfile
        >>> path = tempfile.mkdtemp() + "/numbers.csv"
        >>> _ = ab.run(ab.from_iterable([1, 2]).write_csv(path), on="sequential")
        >>> pathlib.Path(path).read_text()
        'value\n1\n2\n'
        """
        return self._sink(WriteFiles(str(path), "csv"), name)

    def write_jsonl(self, path: str, *, name: str | None = None) -> Sink:
        r"""Write JSON lines: a directory of parts, or one `.jsonl` file.

        >>> import anabranch as ab, pathlib, tempfile
        >>> path = tempfile.mkdtemp() + "/numbers.jsonl"
        >>> _ = ab.run(ab.from_iterable([1, 2]).write_jsonl(path), on="sequential")
        >>> pathlib.Path(path).read_text()
        '1\n2\n'
        """
        return self._sink(WriteFiles(str(path), "jsonl"), name)

    def write_parquet(self, path: str, *, name: str | None = None) -> Sink:
        """Write Parquet: a directory of parts, or one `.parquet` file.

        >>> import anabranch as ab, pyarrow.parquet, tempfile
        >>> path = tempfile.mkdtemp() + "/numbers.parquet"
        >>> _ = ab.run(ab.from_iterable([1, 2]).write_parquet(path), on="sequential")
        >>> pyarrow.parquet.read_table(path).to_pydict()
        {'value': [1, 2]}
        """
        return self._sink(WriteFiles(str(path), "parquet"), name)

    def to_socket(
        self,
        host: str,
        port: int,
        *,
        format: RowFormat = "jsonl",  # noqa: A002
        name: str | None = None,
    ) -> Sink:
        r"""Send the items as lines to a server that listens at `host` and `port`.

        >>> import anabranch as ab, socket
        >>> with socket.create_server(("localhost", 0)) as server:
        ...     out = ab.from_iterable([1, 2]).to_socket(*server.getsockname())
        ...     _ = ab.run(out, on="sequential")
        ...     with server.accept()[0] as connection:
        ...         connection.recv(100)
        b'1\n2\n'
        """
        return self._sink(ToSocket(host, port, format), name)

    def to_kafka(
        self,
        servers: str,
        topic: str,
        *,
        format: RowFormat = "jsonl",  # noqa: A002
        key: str | None = None,
        patience_s: float = 60.0,
        options: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Sink:
        """Send the items as messages to a topic, those of an epoch in one transaction.

        `key` names the attribute that becomes the key of the messages; items with the
        same key stay in order. Without it all go to the first partition, in order.

        >>> import anabranch as ab
        >>> ab.from_iterable([1]).to_kafka("localhost:9092", "numbers").draft.kind.label
        'to_kafka'
        """
        given = tuple(sorted((options or {}).items()))
        kind = ToKafka(servers, topic, format, key, patience_s, given)
        return self._sink(kind, name)

    def write_postgres(
        self,
        dsn: str,
        table: str,
        *,
        patience_s: float = 60.0,
        name: str | None = None,
    ) -> Sink:
        """Add the items to a table that has a column for each attribute.

        The items of an epoch and its number are written in one transaction, so an
        epoch that is run again adds nothing twice.

        >>> import anabranch as ab
        >>> ab.from_iterable([1]).write_postgres("dbname=test", "n").draft.kind.table
        'n'
        """
        return self._sink(WritePostgres(dsn, table, patience_s), name)

    def to_spark(
        self, f: Callable[[Any, int], Any], *, name: str | None = None
    ) -> Sink:
        """Call `f(DataFrame, epoch)` for each epoch that has items, in order.

        After a failure the last epoch may come again: the same rows, the same number.

        >>> import anabranch as ab
        >>> out = ab.from_iterable([1, 2], int).to_spark(lambda rows, epoch: rows.show())
        >>> ab.run(out, on="sequential")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        anabranch.errors.EngineError: to_spark needs the Spark engine; ...
        """
        return self._sink(ToSpark(f), name)


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
        made = returned_type(f) if f is not None else _made_by(into)
        if f is None and into is None:
            made = windows.row_type(tuple(columns))
        return self.stream._then(kind, type or made, name)  # noqa: SLF001


@dataclass(frozen=True, eq=False)
class Sink:
    """The end of a stream; what `ab.run` and `ab.compile` take.

    >>> import anabranch as ab
    >>> out = ab.from_iterable([1, 2]).to_list()
    >>> _ = ab.run(out, on="sequential")
    >>> out.items
    [1, 2]
    """

    draft: Draft

    @property
    def items(self) -> list[Any]:
        """What a `to_list` sink has collected, in order."""
        if not isinstance(self.draft.kind, ToList):
            msg = f"only a to_list sink has items; this is {self.draft.kind.label}"
            raise AttributeError(msg)  # noqa: TRY004 - as for any object without it
        return self.draft.kind.items


def source(
    kind: Kind,
    type: Any,
    name: str | None,
) -> Stream:
    """Return the stream of a new source."""
    return Stream(Draft(kind, (), (), type, call_site(), name), type=type)


def union(*streams: Stream, name: str | None = None) -> Stream:
    """Bring streams together in the order in which their items arrive.

    >>> import anabranch as ab
    >>> both = ab.union(ab.from_iterable([1, 2]), ab.from_iterable([10]))
    >>> ab.testing.outputs(both)
    [1, 10, 2]
    """
    return _fan_in(Union(), streams, _common_type(streams), name)


def merge(*streams: Stream, by: str, name: str | None = None) -> Stream:
    """Bring streams together by ascending attribute `by`.

    >>> import anabranch as ab
    >>> from typing import NamedTuple
    >>> class Tick(NamedTuple):
    ...     ts: int
    >>> one, two = [ab.from_iterable([Tick(n), Tick(n + 2)], Tick) for n in (2, 1)]
    >>> [t.ts for t in ab.testing.outputs(ab.merge(one, two, by="ts"))]
    [1, 2, 3, 4]
    """
    return _fan_in(Merge(by), streams, _common_type(streams), name)


def barrier(
    *streams: Stream,
    into: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Stream:
    """Wait for one item of each stream and give them together.

    >>> import anabranch as ab
    >>> both = ab.barrier(ab.from_iterable("ab"), ab.from_iterable([1, 2]))
    >>> ab.testing.outputs(both)
    [('a', 1), ('b', 2)]
    """
    return _fan_in(Barrier(into), streams, _made_by(into), name)


def fuse(*streams: Stream) -> None:
    """Declare that operators must run in the same processing element.

    >>> import anabranch as ab
    >>> a = ab.from_iterable([1]).map(abs, name="a")
    >>> b = a.map(abs, name="b")
    >>> ab.fuse(a, b)
    """
    for one, two in itertools.pairwise(streams):
        two.draft.fuse_with = one.draft


def build_graph(sinks: Sequence[Sink]) -> Graph:
    """Return the graph that leads to `sinks`, its operators in the order written."""
    reached: dict[int, Draft] = {}
    waiting = [sink.draft for sink in sinks]
    while waiting:
        draft = waiting.pop()
        if draft.serial not in reached:
            reached[draft.serial] = draft
            waiting.extend(producer for producer, _ in draft.inputs)
    drafts = [reached[serial] for serial in sorted(reached)]
    names = _names(drafts)
    return Graph(
        tuple(
            Op(
                name=names[draft.serial],
                kind=draft.kind,
                inputs=tuple(Output(names[d.serial], port) for d, port in draft.inputs),
                key=draft.key,
                type=draft.type,
                site=draft.site,
                fuse_with=None
                if draft.fuse_with is None
                else names.get(draft.fuse_with.serial),
            )
            for draft in drafts
        )
    )


def _names(drafts: Sequence[Draft]) -> dict[int, str]:
    """Name the operators that the user left unnamed: map, map_2, map_3."""
    taken = {draft.name for draft in drafts if draft.name is not None}
    counts: dict[str, int] = {}
    names: dict[int, str] = {}
    for draft in drafts:
        name = draft.name
        while name is None or (draft.name is None and name in taken):
            label = draft.kind.label
            counts[label] = counts.get(label, 0) + 1
            name = label if counts[label] == 1 else f"{label}_{counts[label]}"
        names[draft.serial] = name
    return names


def _fan_in(
    kind: Kind,
    streams: Sequence[Stream],
    type: Any,
    name: str | None,
    key: tuple[str, ...] = (),
) -> Stream:
    inputs = tuple((stream.draft, stream.port) for stream in streams)
    keys = {stream.key for stream in streams}
    kept = keys.pop() if len(keys) == 1 else ()
    return Stream(
        Draft(kind, inputs, key, type, call_site(), name), key=kept, type=type
    )


def _common_type(streams: Sequence[Stream]) -> Any:
    types = {stream.type for stream in streams}
    return types.pop() if len(types) == 1 else None


def _made_by(into: Any) -> Any:
    """Return the tuple type that `into` makes: itself, or what it is annotated with."""
    if into is None:
        return None
    if isinstance(into, type):
        return into if fields_of(into) is not None else None
    return returned_type(into)


def _as_window(window: Window | int) -> Window:
    return Window(count=window) if isinstance(window, int) else window
