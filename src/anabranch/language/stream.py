"""`Stream`: the handle that users chain operators on, and the sinks of a stream."""

from __future__ import annotations

import datetime as dt
import keyword
import os
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anabranch.connectors.base import load_connector
from anabranch.errors import ArgumentError
from anabranch.graph.kind import Kind, SinkKind
from anabranch.graph.paths import plain_path
from anabranch.graph.site import call_site
from anabranch.graph.types import (
    find_made_type,
    find_return_element_type,
    find_return_pair_type,
    find_return_type,
    there_is,
    type_name,
)
from anabranch.language.drafts import Draft, Result, build_graph
from anabranch.operators import windows
from anabranch.operators.blocks import Block
from anabranch.operators.clock import (
    Duration,
    EventTime,
    InOrder,
    LateEvent,
    StreamClock,
    Timing,
    duration_of,
    is_positive,
)
from anabranch.operators.custom import Apply, Operator, Scan
from anabranch.operators.fan_in import Union
from anabranch.operators.getters import KeyFunction
from anabranch.operators.iterate import Iterate
from anabranch.operators.join import Join, Lookup, read_table
from anabranch.operators.sinks import (
    Committing,
    ForEach,
    Mode,
    ToList,
    ToSpark,
    WriteFiles,
    WriteSink,
)
from anabranch.operators.sources import Given, RowFormat, ValueFormat
from anabranch.operators.stateless import Filter, FlatMap, Map, Punctuate, Split
from anabranch.operators.windows import Aggregate, Column, Late, Window

_ABSENT = object()  # no default was given


class Endings:
    """The sinks that can be put on a stream."""

    draft: Draft
    port: int
    key: tuple[str, ...]
    type: Any

    def _sink(self, kind: SinkKind, name: str | None) -> Result:
        origin = ((self.draft, self.port),)
        return Result(Draft(kind, origin, self.key, None, call_site(), name))

    def to_list(self, *, ordered: bool = True, name: str | None = None) -> Result:
        """Collect the items in a list: `.items` after the run.

        With `ordered=False` the items may be in any order, which saves work behind a
        parallel region.

        >>> import anabranch as ab
        >>> out = ab.from_iterable("ab").to_list()
        >>> _ = ab.run(out, on="sequential")
        >>> out.items
        ['a', 'b']
        """
        return self._sink(ToList(unordered=None if ordered else True), name)

    def for_each(
        self,
        f: Callable[[Any], Any],
        *,
        ordered: bool = True,
        name: str | None = None,
    ) -> Result:
        """Call `f(item)` for each item, in order, in this process.

        With `ordered=False` the items may come in any order, which saves work behind a
        parallel region: for a function that computes a sum, or that adds to a set.

        >>> import anabranch as ab
        >>> _ = ab.run(ab.from_iterable("ab").for_each(print), on="sequential")
        a
        b
        """
        return self._sink(ForEach(f, None if ordered else True), name)

    def write_csv(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "error",
        roll: Duration | str | None = None,
        roll_items: int | None = None,
        roll_bytes: int | None = None,
        ordered: bool = True,
        name: str | None = None,
    ) -> Result:
        r"""Write comma-separated values: a directory of parts, or one `.csv` file.

        If the output exists, `mode` decides: "error" refuses to run, "overwrite"
        replaces it when the new output is complete, and "append" adds parts to a
        directory. Parts appear at the end of the job, or while it runs: with
        `roll="1 min"`, `roll_items=` or `roll_bytes=` a part is complete when it reaches
        that age, number of items or size. With `ordered=False` the parts hold the same
        items in any order, which saves work behind a region with a key.

        >>> import anabranch as ab, pathlib, tempfile
        >>> path = tempfile.mkdtemp() + "/numbers.csv"
        >>> _ = ab.run(ab.from_iterable([1, 2]).write_csv(path), on="sequential")
        >>> pathlib.Path(path).read_text()
        'value\n1\n2\n'
        """
        limits = _roll_limits(roll, roll_items, roll_bytes)
        unordered = None if ordered else True
        return self._sink(
            WriteFiles(plain_path(path), "csv", mode, *limits, unordered), name
        )

    def write_jsonl(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "error",
        roll: Duration | str | None = None,
        roll_items: int | None = None,
        roll_bytes: int | None = None,
        ordered: bool = True,
        name: str | None = None,
    ) -> Result:
        r"""Write JSON lines: a directory of parts, or one `.jsonl` file.

        `mode`, `roll*` and `ordered` are those of `write_csv`.

        >>> import anabranch as ab, pathlib, tempfile
        >>> path = tempfile.mkdtemp() + "/numbers.jsonl"
        >>> _ = ab.run(ab.from_iterable([1, 2]).write_jsonl(path), on="sequential")
        >>> pathlib.Path(path).read_text()
        '1\n2\n'
        """
        limits = _roll_limits(roll, roll_items, roll_bytes)
        unordered = None if ordered else True
        return self._sink(
            WriteFiles(plain_path(path), "jsonl", mode, *limits, unordered), name
        )

    def write_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "error",
        roll: Duration | str | None = None,
        roll_items: int | None = None,
        roll_bytes: int | None = None,
        ordered: bool = True,
        name: str | None = None,
    ) -> Result:
        """Write Parquet: a directory of parts, or one `.parquet` file.

        `mode`, `roll*` and `ordered` are those of `write_csv`.

        >>> import anabranch as ab, pyarrow.parquet, tempfile
        >>> path = tempfile.mkdtemp() + "/numbers.parquet"
        >>> _ = ab.run(ab.from_iterable([1, 2]).write_parquet(path), on="sequential")
        >>> pyarrow.parquet.read_table(path).to_pydict()
        {'value': [1, 2]}
        """
        limits = _roll_limits(roll, roll_items, roll_bytes)
        unordered = None if ordered else True
        return self._sink(
            WriteFiles(plain_path(path), "parquet", mode, *limits, unordered), name
        )

    def to_socket(
        self,
        host: str,
        port: int,
        *,
        format: RowFormat = "jsonl",  # noqa: A002
        name: str | None = None,
    ) -> Result:
        r"""Send the items as lines to a server that listens at `host` and `port`.

        >>> import anabranch as ab, socket
        >>> with socket.create_server(("localhost", 0)) as server:
        ...     out = ab.from_iterable([1, 2]).to_socket(*server.getsockname())
        ...     _ = ab.run(out, on="sequential")
        ...     with server.accept()[0] as connection:
        ...         connection.recv(100)
        b'1\n2\n'
        """
        made = load_connector("socket").SocketSink(host, port, format)
        return self._sink(WriteSink(made), name)

    def to_kafka(
        self,
        servers: str,
        topic: str,
        *,
        format: ValueFormat = "jsonl",  # noqa: A002
        key: str | None = None,
        schema: str | Mapping[str, Any] | None = None,
        registry: str | None = None,
        at_least_once: bool = False,
        patience_s: float = 60.0,
        options: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Result:
        """Send the items as messages to a topic, one transaction per epoch.

        `key` names the attribute that becomes the key of the messages; items with the
        same key stay in order. Without it all items go to the first partition, in
        order. An `ab.KafkaMessage` is sent with its own key, headers and time. With a
        checkpoint, a committed epoch is not sent again after a failure. With
        `at_least_once` there are no transactions: readers need not wait for the end of
        one, and the last epoch before a failure may be sent again. With `format="avro"`
        values are Avro in `schema`, or in the one derived from the type; the schema is
        registered in the `registry` at that URL, and values begin with its id.

        >>> import anabranch as ab
        >>> ab.from_iterable([1]).to_kafka("localhost:9092", "numbers").draft.kind.label
        'to_kafka'
        """
        made = load_connector("kafka").KafkaSink(
            *(servers, topic, format, key, patience_s, options, schema, registry),
            at_least_once,
        )
        return self._sink(WriteSink(made), name)

    def write_postgres(
        self,
        dsn: str,
        table: str,
        *,
        patience_s: float = 60.0,
        name: str | None = None,
    ) -> Result:
        """Insert the items into a table that has a column for each attribute.

        The items of an epoch and its number are written in one transaction, so an
        epoch that runs again inserts nothing twice.

        >>> import anabranch as ab
        >>> ab.from_iterable([1]).write_postgres("dbname=test", "n").draft.kind.sink.table
        'n'
        """
        made = load_connector("postgres").PostgresSink(dsn, table, patience_s)
        return self._sink(WriteSink(made), name)

    def write_delta(
        self,
        path: str | os.PathLike[str],
        *,
        by: str | Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Result:
        """Append the items to a Delta Lake table, one commit per epoch.

        The table is created if it does not exist. With `by`, an item replaces the row
        that has the same values in these attributes (an upsert). An epoch that runs
        again adds nothing twice. `options` are the storage options of `deltalake`.

        >>> import anabranch as ab
        >>> ab.from_iterable([1]).write_delta("out/n", by="value").draft.kind.sink.by
        ('value',)
        """
        given = tuple(sorted((options or {}).items()))
        made = load_connector("delta").DeltaSink(os.fspath(path), names_of(by), given)
        return self._sink(WriteSink(made), name)

    def write_iceberg(
        self,
        table: str,
        *,
        catalog: str | Mapping[str, str] | None = None,
        by: str | Sequence[str] = (),
        name: str | None = None,
    ) -> Result:
        """Append the items to an Iceberg table, one commit per epoch.

        The table is created if it does not exist. With `by`, an item replaces the row
        that has the same values in these attributes (an upsert). An epoch that runs
        again adds nothing twice. `catalog` is the name of one in PyIceberg's configuration,
        or its properties.

        >>> import anabranch as ab
        >>> ab.from_iterable([1]).write_iceberg("shop.totals").draft.kind.sink.table
        'shop.totals'
        """
        made = load_connector("iceberg").IcebergSink(
            table, names_of(by), catalog_options(catalog)
        )
        return self._sink(WriteSink(made), name)

    def write(self, sink: Committing, *, name: str | None = None) -> Result:
        """Write to a sink of your own: an instance of a subclass of `ab.Sink`.

        >>> import anabranch as ab
        >>> class Printer(ab.Sink):
        ...     def write(self, items):
        ...         print(*items)
        >>> _ = ab.run(ab.from_iterable("ab").write(Printer()), on="sequential")
        a b
        """
        if isinstance(sink, type) or not isinstance(sink, Committing):
            advice = "see docs/connectors.md for an example"
            if isinstance(sink, type) and hasattr(sink, "commit"):
                advice = f"make an instance: {sink.__name__}(...)"
            msg = (
                f"{call_site()}: write must be given an instance of a class that "
                f"inherits from ab.Sink; got {sink!r}; {advice}"
            )
            raise ArgumentError(msg)
        return self._sink(WriteSink(sink), name)

    def to_spark(
        self, f: Callable[[Any, int], Any], *, name: str | None = None
    ) -> Result:
        """Call `f(DataFrame, epoch)` for each epoch that has items, in order.

        After a failure the last epoch may be delivered again: same rows, same number.

        >>> import anabranch as ab
        >>> out = ab.from_iterable([1, 2], int).to_spark(lambda rows, epoch: rows.show())
        >>> ab.run(out, on="sequential")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        anabranch.errors.EngineError: to_spark needs the Spark engine; ...
        """
        return self._sink(ToSpark(f), name)


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
    clock: StreamClock | None = None
    forget_after: Duration | None = None

    def __repr__(self) -> str:
        of = "" if self.type is None else f" of {type_name(self.type)}"
        by = f" by {', '.join(self.key)}" if self.key else ""
        return f"<Stream {self.draft.title}{of}{by}, {self.draft.chain}>"

    if not TYPE_CHECKING:  # a type checker is to find these mistakes itself

        def __getattr__(self, name: str) -> Any:
            public = (each for each in dir(Stream) if not each.startswith("_"))
            methods = [one for one in public if callable(getattr(Stream, one))]
            msg = f"a stream has no {name!r}; {there_is(name, methods, 'method')}"
            raise AttributeError(msg)

        def __getitem__(self, _: Any) -> Any:  # `for` and `list` come here too
            msg = (
                f"a stream must be run to have items; {self!r} only describes them; look "
                f"at them by ab.testing.outputs(stream), or run stream.to_list()"
            )
            raise ArgumentError(msg)

    def _then(self, kind: Kind, type: Any, name: str | None) -> Stream:
        draft = Draft(
            kind,
            ((self.draft, self.port),),
            self.key,
            type,
            call_site(),
            name,
            timing=_find_timing(self, kind),
        )
        passes = draft.timing is not None or isinstance(kind, CLOCK_PASSES)
        return replace(
            self, draft=draft, port=0, type=type, clock=self.clock if passes else None
        )

    def map(
        self,
        f: Callable[[Any], Any],
        *,
        type: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Emit `f(item)` for each item.

        >>> import anabranch as ab
        >>> ab.testing.outputs(ab.from_iterable([1, 2]).map(lambda n: n + 1))
        [2, 3]
        """
        return self._then(Map(f), type or find_return_type(f), name)

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
        """Emit every element of `f(item)`, in order.

        >>> import anabranch as ab
        >>> ab.testing.outputs(ab.from_iterable(["a b", "c"]).flat_map(str.split))
        ['a', 'b', 'c']
        """
        return self._then(FlatMap(f), type or find_return_element_type(f), name)

    def event_time(
        self,
        on: str,
        *,
        lateness: Duration | str = 0,
        late: LateEvent = "drop",
        unit: str | None = None,
        idle: dt.timedelta | str | None = None,
        name: str | None = None,
    ) -> Stream:
        """Give the stream an event-time clock: the highest `on` so far, minus `lateness`.

        The clock is common to all keys. Time windows and sessions close when it reaches
        their end; timers and `forget_after` follow it too. `late` decides about an item
        whose time is below the clock: "drop" it, raise an "error", make it a
        "dead_letter", or treat its time as "current". `unit` is the unit of numeric
        times, so that durations may have units.

        Where streams with clocks meet, the lowest clock counts. With `idle`, a live
        stream that has been silent for that long (wall-clock time) does not hold the
        others back until it emits an item again.

        >>> import anabranch as ab
        >>> from typing import NamedTuple
        >>> class Click(NamedTuple):
        ...     ts: int
        ...     user: str
        >>> clicks = [Click(1, "ada"), Click(2, "bob"), Click(12, "ada"), Click(3, "bob")]
        >>> counts = (ab.from_iterable(clicks, Click).event_time("ts").key_by("user")
        ...     .window(time=10, on="ts")
        ...     .aggregate(end=ab.window_end(), user=ab.any("user"), n=ab.count()))
        >>> for row in ab.testing.outputs(counts): print(row)
        Row(end=10, user='ada', n=1)
        Row(end=10, user='bob', n=1)
        Row(end=20, user='ada', n=1)
        """
        silence: Any = idle if idle is None else duration_of(idle)
        kind = EventTime(name_of(on), duration_of(lateness), late, unit, idle=silence)
        made = self._then(kind, self.type, name)
        return replace(made, clock=StreamClock(on, unit, late))

    def key_by(
        self,
        *parts: str | Callable[[Any], Any],
        forget_after: Duration | str | None = None,
    ) -> Stream:
        """Give the operators that follow a separate state for each value of the key.

        Each part is the name of an attribute (of a dict: an entry), or a function that
        depends on the item alone. The key applies until the next `key_by`; `key_by()`
        ends it. Behind `event_time`, the state of a key is finished and removed when the
        clock has passed the time of its last item by `forget_after`.

        >>> import anabranch as ab
        >>> ab.from_iterable([]).key_by("symbol").key
        ('symbol',)
        >>> words = ab.from_iterable(["ab", "c", "de"]).key_by(len)
        >>> ab.testing.outputs(words.scan(lambda n, word: (n + 1, (word, n + 1)), 0))
        [('ab', 1), ('c', 1), ('de', 2)]
        """
        for one in parts:
            if not isinstance(one, str) and not callable(one):
                msg = (
                    f"{call_site()}: a key must be made of names of attributes and of "
                    f"functions; got {one!r}; write the name as a string"
                )
                raise ArgumentError(msg)
        attributes = tuple(
            one if isinstance(one, str) else KeyFunction.of(one) for one in parts
        )
        if forget_after is None:
            return replace(self, key=attributes, forget_after=None)
        if self.clock is None or not attributes:
            lacking = "a clock" if self.clock is None else "a key"
            msg = (
                f"{call_site()}: forget_after must have {lacking}; put "
                f'.event_time("...") before key_by, and name the key'
            )
            raise ArgumentError(msg)
        after = duration_of(forget_after)
        if not is_positive(after):
            msg = f"{call_site()}: forget_after must be above 0; got {forget_after!r}"
            raise ArgumentError(msg)
        return replace(self, key=attributes, forget_after=after)

    def scan(
        self,
        step: Callable[[Any, Any], tuple[Any, Any]],
        initial: Any,
        *,
        type: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Update a state for each item: `step(state, item)` returns next state and output.

        >>> import anabranch as ab
        >>> sums = ab.from_iterable([1, 2, 3]).scan(lambda s, n: (s + n, s + n), 0)
        >>> ab.testing.outputs(sums)
        [1, 3, 6]
        """
        return self._then(
            Scan(step, initial), type or find_return_pair_type(step), name
        )

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
        inferred = None if process is None else find_return_element_type(process)
        return self._then(kind, type or inferred, name)

    def window(
        self,
        *,
        count: int | None = None,
        time: Duration | str | None = None,
        delta: float | None = None,
        on: str | None = None,
        every: Duration | str | None = None,
        punctuation: bool = False,
        late: Late | None = None,
        gap: Duration | str | None = None,
    ) -> WindowedStream:
        """Group items; follow with `.aggregate`.

        | argument | items of one window |
        | --- | --- |
        | `count` | that number of items |
        | `time` | items whose attribute `on` is in the same interval, aligned to multiples of its length |
        | `delta` | items whose `on` differs from that of the first by less than this |
        | `punctuation` | items between two punctuations |
        | `gap` | a session: neighbours are less than this apart |

        `every` makes the window slide. `late` decides about an item whose time window
        was already emitted: "error", "drop", or "current" to put it into the current one.
        Times are numbers, dates or datetimes; lengths are numbers, `timedelta` or texts
        such as "5 min". Behind `event_time`, time windows close by its clock.

        >>> import anabranch as ab
        >>> pairs = ab.from_iterable([1, 2, 3]).window(count=2).aggregate(list)
        >>> ab.testing.outputs(pairs)
        [[1, 2], [3]]
        """
        clock = self.clock
        clocked = clock is not None and (time is not None or gap is not None)
        if late is None:
            current = clocked and clock is not None and clock.late == "current"
            late = "current" if current else "error"
        unit = clock.unit if clock is not None else None
        if clocked and clock is not None and on is None:
            on = clock.on
        return WindowedStream(
            self,
            Window(
                count,
                None if time is None else duration_of(time),
                delta,
                on,
                None if every is None else duration_of(every),
                punctuation,
                late,
                None if gap is None else duration_of(gap),
                unit,
                clocked,
            ),
        )

    def join(
        self,
        right: Stream,
        *,
        on: str | Sequence[str] = (),
        left_window: Window | int | None = None,
        right_window: Window | int | None = None,
        within: Duration | str | None = None,
        match: Callable[[Any, Any], bool] | None = None,
        into: Callable[[Any, Any], Any] | None = None,
        type: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Join with another stream over two windows (`ab.Window`, or a number of items).

        With `within` instead of windows, items match that are less than that apart in
        event time; both streams need a clock on the same attribute.

        >>> import anabranch as ab
        >>> left, right = ab.from_iterable([1, 2]), ab.from_iterable([10, 20])
        >>> ab.testing.outputs(left.join(right, left_window=1, right_window=1))
        [(1, 10), (2, 10), (2, 20)]
        """
        if (within is None) == (left_window is None or right_window is None):
            msg = (
                f"{call_site()}: join must be given both left_window and right_window, or "
                f"within alone"
            )
            raise ArgumentError(msg)
        kind = Join(
            on=names_of(on),
            left_window=_as_window(left_window),
            right_window=_as_window(right_window),
            match=match,
            into=into,
            within=None if within is None else duration_of(within),
        )
        if within is not None:
            _refuse_within(self, right, within)
        return gather(kind, (self, right), type or find_made_type(into), name, kind.on)

    def join_latest(
        self,
        right: Stream,
        *,
        on: str | Sequence[str] = (),
        match: Callable[[Any, Any], bool] | None = None,
        into: Callable[[Any, Any], Any] | None = None,
        type: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Pair each item with the latest item of another stream that has the same key.

        An item is left out if the other stream has had none for its key.

        >>> import anabranch as ab
        >>> trades, quotes = ab.from_iterable([1, 2, 3]), ab.from_iterable([10, 20])
        >>> ab.testing.outputs(trades.join_latest(quotes))
        [(2, 10), (3, 20)]
        """
        return self.join(
            right,
            on=on,
            left_window=0,
            right_window=1,
            match=match,
            into=into,
            type=type,
            name=name,
        )

    def lookup(
        self,
        table: Any,
        *,
        on: str | Sequence[str],
        into: Callable[[Any, Any], Any] | None = None,
        default: Any = _ABSENT,
        type: Any = None,
        name: str | None = None,
    ) -> Stream:
        """Enrich each item from a table: emit the pair of item and entry, or `into` of both.

        The table is a mapping from the values of `on`, a DataFrame with these columns
        (Spark, pandas or Arrow; read now, one row per key), or another stream, whose
        latest item with the key is used. An item whose key is not in the table is left
        out, or paired with `default`.

        >>> import anabranch as ab
        >>> from typing import NamedTuple
        >>> class Trade(NamedTuple):
        ...     symbol: str
        ...     volume: int
        >>> trades = ab.from_iterable([Trade("A", 5), Trade("B", 7)], Trade)
        >>> named = trades.lookup({"A": "Acme"}, on="symbol", default="?",
        ...                       into=lambda trade, firm: (firm, trade.volume))
        >>> ab.testing.outputs(named)
        [('Acme', 5), ('?', 7)]
        """
        by = names_of(on)
        if not by:
            msg = f"{call_site()}: lookup needs a key; name its attributes in on="
            raise ArgumentError(msg)
        met = () if default is _ABSENT else (default,)
        made = type or find_made_type(into)
        if isinstance(table, Stream):
            window = Window(count=0), Window(count=1)
            join = Join(by, *window, into=into, default=met)
            return gather(join, (self, table), made, name, by)
        kind = Lookup(read_table(table, by), by, into, met)
        return self._then(kind, made, name)

    def in_order(self, *, name: str | None = None) -> Stream:
        """Sort the items by their times; needs `event_time`.

        An item waits until the clock reaches its time.

        >>> import anabranch as ab
        >>> from typing import NamedTuple
        >>> class Click(NamedTuple):
        ...     ts: int
        >>> clicks = ab.from_iterable([Click(2), Click(1), Click(3)], Click)
        >>> sorted_clicks = clicks.event_time("ts", lateness=1).in_order()
        >>> [click.ts for click in ab.testing.outputs(sorted_clicks)]
        [1, 2, 3]
        """
        if self.clock is None:
            msg = f'{call_site()}: in_order must have a clock; put .event_time("...") before'
            raise ArgumentError(msg)
        return self._then(InOrder(self.clock.on), self.type, name)

    def split(
        self, route: Callable[[Any], Any], n: int, *, name: str | None = None
    ) -> list[Stream]:
        """Divide into `n` streams; `route(item)` returns one index or several.

        >>> import anabranch as ab
        >>> even, odd = ab.from_iterable([1, 2, 3]).split(lambda k: k % 2, 2)
        >>> ab.testing.outputs(odd)
        [1, 3]
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            msg = (
                f"{call_site()}: n of split must be a whole number of 1 or more; got "
                f"{n!r}; give the number of streams that route chooses from"
            )
            raise ArgumentError(msg)
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
        """Consume `pop` items at a time, look at `peek` of them, emit `push` items.

        >>> import anabranch as ab
        >>> sums = ab.from_iterable([1, 2, 3, 4]).block(lambda w: [sum(w)], pop=2, push=1)
        >>> ab.testing.outputs(sums)
        [3, 7]
        """
        kind = Block(f, pop, push, pop if peek is None else peek)
        return self._then(kind, type or find_return_element_type(f), name)

    def pipe(self, composite: Callable[[Stream], Stream]) -> Stream:
        """Apply a composite: `ab.pipeline`, `ab.split_join`, or any function of a stream.

        >>> import anabranch as ab
        >>> inc = ab.pipeline(lambda s: s.map(lambda n: n + 1))
        >>> ab.testing.outputs(ab.from_iterable([1]).pipe(inc))
        [2]
        """
        if not callable(composite):
            msg = (
                f"{call_site()}: pipe must be given a function from a stream to a "
                f"stream; got {composite!r}"
            )
            raise ArgumentError(msg)
        return stream_of(composite(self), f"{call_site()}: the result of a composite")

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
        result = stream_of(body(given), "the result of an iterate body")
        sink = result.to_list()
        kind = Iterate(build_graph([sink]), rounds, until)
        return self._then(kind, result.type, name)


@dataclass(frozen=True, eq=False)
class WindowedStream:
    """A stream whose items are grouped; made by `Stream.window`."""

    stream: Stream
    window: Window

    def __repr__(self) -> str:
        return f"<WindowedStream {self.window.text} on {self.stream!r}>"

    def __getattr__(self, name: str) -> Any:
        msg = f"a window has no {name}; aggregate it first: .window(...).aggregate(f)"
        raise AttributeError(msg)

    def aggregate(
        self,
        f: Callable[[list[Any]], Any] | None = None,
        /,
        *,
        into: Callable[..., Any] | None = None,
        type: Any = None,
        name: str | None = None,
        **columns: Column,
    ) -> Stream:
        """Emit one output per window: `f(items)`, or the named columns.

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
        _refuse_options_as_columns(into, type, name)
        _refuse_names(columns)
        kind = Aggregate(self.window, f, tuple(columns.items()), into)
        made = find_return_type(f) if f is not None else find_made_type(into)
        if f is None and into is None:
            made = windows.row_type(tuple(columns))
        return self.stream._then(kind, type or made, name)  # noqa: SLF001


def _refuse_options_as_columns(into: Any, type: Any, name: Any) -> None:
    """Raise if a column is named like an option of `aggregate`."""
    for option, given in (("into", into), ("type", type), ("name", name)):
        if isinstance(given, Column):
            msg = (
                f"{call_site()}: {option} is an option of aggregate, so no column can have "
                f"that name; name the column otherwise"
            )
            raise ArgumentError(msg)


def _refuse_names(columns: Iterable[str]) -> None:
    """Raise if the name of a column cannot be that of an attribute."""
    for name in columns:
        if not name.isidentifier() or keyword.iskeyword(name) or name[0] == "_":
            msg = (
                f"{call_site()}: the name of a column must be an identifier that is no "
                f"word of Python and has no underscore in front; got {name!r}"
            )
            raise ArgumentError(msg)


def _roll_limits(
    roll: Duration | str | None, items: int | None, size: int | None
) -> tuple[float | None, int | None, int | None]:
    """Return when parts of an output end: seconds, items, bytes."""
    length = None if roll is None else duration_of(roll)
    if isinstance(length, dt.timedelta):
        length = length.total_seconds()
    for name, value in (("roll", length), ("roll_items", items), ("roll_bytes", size)):
        if value is not None and not value > 0:
            msg = f"{call_site()}: {name} must be above 0; got {value!r}"
            raise ArgumentError(msg)
    return length, items, size


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
    """Return the stream of an operator with several inputs."""
    streams = [stream_of(one, f"each input of {kind.label}") for one in streams]
    inputs = tuple((stream.draft, stream.port) for stream in streams)
    keys = {stream.key for stream in streams}
    kept = keys.pop() if len(keys) == 1 else ()
    clocks = {stream.clock for stream in streams}
    clock = clocks.pop() if len(clocks) == 1 else None
    in_time = isinstance(kind, Union) or (
        isinstance(kind, Join) and kind.within is not None
    )
    timing = Timing(clock.on, clock.unit) if clock is not None and in_time else None
    draft = Draft(kind, inputs, key, type, call_site(), name, timing=timing)
    return Stream(draft, key=kept, type=type, clock=clock if timing else None)


def _refuse_within(left: Stream, right: Stream, within: Duration | str) -> None:
    """Raise if two streams cannot be joined by event time."""
    if left.clock is None or left.clock != right.clock:
        msg = (
            f"{call_site()}: a join within {within!r} must have a clock of the same "
            f"attribute, unit and late= on both sides; got {left.clock} and "
            f'{right.clock}; put .event_time("...") behind each'
        )
        raise ArgumentError(msg)
    if not is_positive(duration_of(within)):
        msg = f"{call_site()}: within must be above 0; got {within!r}"
        raise ArgumentError(msg)


CLOCK_PASSES = (Map, Filter, FlatMap, Lookup, Punctuate, Split, Scan, Apply)


def _find_timing(stream: Stream, kind: Kind) -> Timing | None:
    """Return how an operator follows the clock of its stream; None: not at all."""
    clock = stream.clock
    if clock is None:
        return None
    if isinstance(kind, InOrder) or (
        isinstance(kind, Aggregate) and kind.window.clocked
    ):
        return Timing(clock.on, clock.unit)  # closed windows are dropped anyway
    forget_after = stream.forget_after if kind.keyable and stream.key else None
    woken = isinstance(kind, Apply) and kind.overrides("on_time")
    if not woken and forget_after is None:
        return None
    return Timing(clock.on, clock.unit, forget_after)


def _as_window(window: Window | int | None) -> Window:
    if window is None:
        return Window(count=1)  # for a join by time alone
    return Window(count=window) if isinstance(window, int) else window


def names_of(names: str | Sequence[str], option: str = "on") -> tuple[str, ...]:
    """Return one name or several as a tuple; refuse anything else."""
    several = isinstance(names, Sequence) and not isinstance(names, str)
    return tuple(name_of(one, option) for one in (names if several else [names]))


def name_of(name: Any, option: str = "on") -> str:
    """Return the name of an attribute; refuse anything else."""
    if isinstance(name, str):
        return name
    msg = (
        f"{option} must name an attribute; got {name!r}; if the value has to be computed, "
        f"map the items so that it is an attribute"
    )
    raise ArgumentError(msg)


def stream_of(given: Any, what: str) -> Stream:
    """Return a stream; refuse anything else that a user gives as `what`."""
    if isinstance(given, Stream):
        return given
    advice = "; give the stream before its sink" if isinstance(given, Result) else ""
    msg = f"{what} must be a stream; got {reprlib.repr(given)}{advice}"
    raise ArgumentError(msg)


def catalog_options(
    catalog: str | Mapping[str, str] | None,
) -> tuple[tuple[str, str], ...]:
    """Return a catalog, by its name or its properties, as options of a table."""
    if isinstance(catalog, str):
        return (("name", catalog),)
    return tuple(sorted((catalog or {}).items()))
