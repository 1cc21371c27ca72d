"""Kafka: messages of a topic read by offset, and items sent in transactions.

Reading: a broker may be unavailable for `patience_s`. Offsets that were requested stay
the same meanwhile, so nothing is lost or duplicated.

Writing: the messages of an epoch are sent in one transaction. It also commits the
number of the epoch, as the offset of the sink's own consumer group. A repeated epoch
finds its number there and is not sent again. Readers that want complete epochs read
committed messages only.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import pyarrow as pa

from anabranch.connectors.avro import AvroDecoder, AvroEncoder, find_schema_faults
from anabranch.connectors.base import Malformed, RowRange, Sink, Source, require
from anabranch.connectors.files.arrow_items import Form, form_of, values_of
from anabranch.connectors.files.jsonl import json_of_table, json_table
from anabranch.connectors.files.values import find_row_faults
from anabranch.connectors.lines import LineEncoder, decoder_of
from anabranch.errors import ArgumentError, FencedError, InputError, OutputError
from anabranch.operators.getters import attribute_getter
from anabranch.operators.sources import ValueFormat

_ASK_S = 2.0  # timeout of one request to the broker
_POLL_S = 0.2
_MESSAGES = 1000  # at a time
_RANGE_MESSAGES = 10_000  # at a time, of a range that is read to its end

T = TypeVar("T")


Place: TypeAlias = tuple[str, int]  # topic, partition
_NO_OFFSET = -1  # end of partition, as librdkafka reports it


class KafkaMessage(NamedTuple):
    """A whole Kafka message: the type for `ab.kafka` if the value is not enough.

    `to_kafka` sends a message with its key, headers and time; the rest says where it
    was read. `time_s` is since 1970.

    >>> import anabranch as ab
    >>> ab.KafkaMessage(b"17.5", key=b"A", headers=(("unit", b"EUR"),)).key
    b'A'
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    time_s: float | None = None
    topic: str = ""
    partition: int = 0
    offset: int = 0


@dataclass(eq=False)
class KafkaSource(Source):
    """The messages of topics, one item each; a position is an offset.

    A topic that begins with `^` is a pattern of names. Without `follow` the source ends
    after the messages present at its start. `patience_s` is how long a broker may be
    unavailable.
    """

    servers: str
    topic: str | Sequence[str]
    type: Any
    format: ValueFormat | None = None  # None: text for strings, else JSON lines
    delimiter: str = ","
    start: Literal["earliest", "latest"] | datetime = "earliest"
    follow: bool = True
    patience_s: float = 60.0
    options: Any = None  # a mapping; kept as sorted pairs
    schema: Any = None  # of values in Avro; kept as text
    registry: str | None = None

    label: ClassVar[str] = "kafka"

    def __post_init__(self) -> None:
        _refuse_start(self.start)
        if self.format is None:
            self.format = "text" if self.type is str else "jsonl"
        self.schema = _text_of_schema(self)
        if not isinstance(self.topic, str):
            self.topic = tuple(self.topic)
        self.options = tuple(sorted((self.options or {}).items()))
        self.live = self.follow
        self._partitions: list[str] = []

    def partitions(self) -> list[str]:
        topic = self._connect()
        while True:  # a broker answers, or patience runs out
            found = topic.find_partitions()
            if found is not None:
                self._partitions = [self._name(place) for place in found]
            if self._partitions or (found is not None and self._pattern and self.live):
                return self._partitions

    @property
    def _pattern(self) -> bool:
        return isinstance(self.topic, str) and self.topic.startswith("^")

    def _name(self, place: Place) -> str:
        """Return the name of a partition: its number, if there is one topic."""
        topic, number = place
        return str(number) if topic == self.topic else f"{topic}/{number}"

    def _find_place(self, partition: str) -> Place:
        topic, _, number = partition.rpartition("/")
        return topic or str(self.topic), int(number)

    def offsets(self, partition: str) -> tuple[int, int] | None:
        return self._connect().find_bounds(self._find_place(partition))

    def first_offset(self, partition: str) -> int | None:
        place, topic = self._find_place(partition), self._connect()
        if isinstance(self.start, datetime):
            return topic.find_offset_at(place, self.start)
        bounds = topic.find_bounds(place)
        if bounds is None:
            return None
        return bounds[1 if self.start == "latest" and self.follow else 0]

    def read(self, partition: str, position: int) -> Iterator[tuple[KafkaMessage, int]]:
        topic, place = self._connect(), self._find_place(partition)
        while (bounds := topic.find_bounds(place)) is None:
            pass
        for message in topic.read(place, position, bounds[1]):
            yield message, message.offset + 1

    def find_faults(self, type: Any) -> Iterable[tuple[str, str]]:
        if type is KafkaMessage:
            return ()
        if self.format == "avro" and self.schema is self.registry is None:
            return find_schema_faults(type)
        return find_row_faults(str(self.format), type, self.delimiter)

    def read_range(self, partition: str, start: int, end: int) -> RowRange | None:
        if self.type is KafkaMessage:
            return None
        found = _RangeMessages(self._find_place(partition))
        topic = self._connect()
        for messages in topic.read_batches(found.place, start, end, _RANGE_MESSAGES):
            found.values += [message.value() for message in messages]
            found.offsets += [message.offset() for message in messages]
            found.times_s += [time_of(message) for message in messages]
        return RowRange(found, found.offsets, found.times_s)

    def decode_table(self, rows: Sequence[KafkaMessage]) -> Any:
        form = form_of(self.type) if self.format == "jsonl" else None
        if form is None or not isinstance(rows, _RangeMessages) or None in rows.values:
            return None
        lines = cast("list[bytes]", rows.values)
        return json_table(b"\n".join(lines), form, len(lines))

    def decode(self, rows: Sequence[KafkaMessage]) -> Sequence[Any]:
        if self.type is KafkaMessage:
            return rows

        def where(index: int) -> str:
            at = rows[index]
            return f"topic {at.topic}, partition {at.partition}, offset {at.offset}"

        values = [row.value for row in rows]
        if self.format == "avro":
            decoder = AvroDecoder(self.type, self.schema, self.registry)
            return decoder.decode(values, where)
        return decoder_of(self, f"topic {self.topic}").decode(values, where)

    def born_s(self, row: KafkaMessage) -> float | None:
        return row.time_s

    def addresses(self) -> list[tuple[str, int]]:
        return list_addresses(self.servers)

    def close(self) -> None:
        if self in _topics:
            _topics.pop(self).close()

    def _connect(self) -> Topic:
        """Return this process's connection to the brokers."""
        if self not in _topics:
            _topics[self] = Topic(self)
        return _topics[self]


def _refuse_start(start: Any) -> None:
    """Refuse a time without a zone, which differs between machines."""
    if isinstance(start, datetime) and start.tzinfo is None:
        msg = (
            f"start must be a time with a zone; got {start!r}; say "
            f"start.replace(tzinfo=datetime.UTC), or which zone it is"
        )
        raise ArgumentError(msg)
    if not isinstance(start, datetime) and start not in ("earliest", "latest"):
        msg = f"start must be 'earliest', 'latest' or a datetime; got {start!r}"
        raise ArgumentError(msg)


def _text_of_schema(connector: KafkaSource | KafkaSink) -> str | None:
    """Return the schema as text; refuse options that only Avro has."""
    schema, registry = connector.schema, connector.registry
    if connector.format != "avro" and (schema is not None or registry is not None):
        msg = (
            f'schema and registry are for format="avro"; got '
            f"format={connector.format!r}; say that, or leave them out"
        )
        raise ArgumentError(msg)
    return schema if schema is None or isinstance(schema, str) else json.dumps(schema)


@dataclass(eq=False)
class _RangeMessages(Sequence[KafkaMessage]):
    """The messages of a range, of which most need only the value."""

    place: Place
    values: list[bytes | None] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    times_s: list[float | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[KafkaMessage]:
        found = zip(self.values, self.times_s, self.offsets, strict=True)
        for value, time_s, offset in found:
            yield KafkaMessage(value, None, (), time_s, *self.place, offset)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]


_topics: WeakKeyDictionary[KafkaSource, Topic] = WeakKeyDictionary()


def list_addresses(servers: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of brokers.

    >>> list_addresses("a:9092, b:9093")
    [('a', 9092), ('b', 9093)]
    """
    places = (one.strip().rpartition(":") for one in servers.split(","))
    return [(host, int(port)) for host, _, port in places]


def time_of(message: Any) -> float | None:
    """Return the time of a message in seconds since 1970, if it has one."""
    kind, time_ms = message.timestamp()
    return time_ms / 1000 if kind else None


class Topic:
    """The topics of a source as the brokers know them."""

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self._kafka = require("confluent_kafka", "kafka")
        self._consumer = self._kafka.Consumer(
            {
                "bootstrap.servers": source.servers,
                "group.id": "anabranch",  # nothing is ever committed under it
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,  # the next range waits for messages in flight
                "reconnect.backoff.max.ms": 1000,
                "log_level": 2,
                **dict(source.options),
            },
        )
        self._answered_s = time.monotonic()
        self._next: tuple[Place, int] | None = None  # what the brokers send next
        self._ended: tuple[Place, int] | None = None  # where the last range ended

    def find_partitions(self) -> list[Place] | None:
        """Return the partitions of all topics; None while no broker answers."""
        names = self._find_topics()
        found: list[Place] = []
        for name in names or ():
            numbers = self._find_numbers(name)
            if numbers is None:
                return None
            found += ((name, number) for number in numbers)
        return None if names is None else found

    def _find_topics(self) -> list[str] | None:
        """Return the names of the topics; None while no broker answers."""
        given = self._source.topic
        if not isinstance(given, str):
            return list(given)
        if not given.startswith("^"):
            return [given]
        known = self._ask(lambda: self._consumer.list_topics(timeout=_ASK_S))
        if known is None:
            return None
        return sorted(
            name
            for name in known.topics
            if re.match(given, name) and not name.startswith("__")  # Kafka's own
        )

    def _find_numbers(self, name: str) -> list[int] | None:
        """Return the partitions of a topic; None while no broker answers."""
        found = self._ask(lambda: self._consumer.list_topics(name, timeout=_ASK_S))
        if found is None:
            return None
        topic = found.topics[name]
        if topic.error is not None:
            if topic.error.retriable():
                return None
            msg = (
                f"must read a topic that exists; {name!r} at {self._source.servers}: "
                f"{topic.error.str()}"
            )
            raise InputError(msg)
        return sorted(topic.partitions)

    def find_bounds(self, place: Place) -> tuple[int, int] | None:
        """Return the first offset and the end offset; None: no answer."""
        partition = self._kafka.TopicPartition(*place)
        return self._ask(
            lambda: self._consumer.get_watermark_offsets(partition, timeout=_ASK_S)
        )

    def find_offset_at(self, place: Place, time: datetime) -> int | None:
        """Return the offset of the first message at a time or later; None: no
        answer.
        """
        asked = self._kafka.TopicPartition(*place, round(time.timestamp() * 1000))
        found = self._ask(
            lambda: self._consumer.offsets_for_times([asked], timeout=_ASK_S)
        )
        if found is None or found[0].error is not None:
            return None
        if found[0].offset > _NO_OFFSET:
            return int(found[0].offset)
        bounds = self.find_bounds(place)  # no message is that late yet
        return None if bounds is None else bounds[1]

    def read(self, place: Place, start: int, end: int) -> Iterator[KafkaMessage]:
        """Yield the messages of a range of offsets.

        Some offsets have no message (transaction markers, compacted ones).
        """
        for messages in self.read_batches(place, start, end):
            for message in messages:
                yield self._message_of(place, message)

    def read_batches(
        self, place: Place, start: int, end: int, most: int = _MESSAGES
    ) -> Iterator[list[Any]]:
        """Yield the messages of a range of offsets, at `most` so many at a time.

        The brokers would go on sending what other tasks read. They may if the source is
        live, or if this range began where the last one ended: then the next one probably
        does so too.
        """
        goes_on = self._source.live or self._ended == (place, start)
        if self._next != (place, start):
            self._consumer.assign([self._kafka.TopicPartition(*place, start)])
        self._next = None
        self._answered_s = time.monotonic()
        at, beyond = start, False
        try:
            while at < end:
                found = self._consumer.consume(min(most, end - at), timeout=_POLL_S)
                if not found:
                    self._lose_patience(None)
                    continue
                self._answered_s = time.monotonic()
                messages = [message for message in found if message.error() is None]
                if len(messages) < len(found):
                    at = max(at, *(self._offset_behind(message) for message in found))
                if messages:
                    last = messages[-1].offset()  # they come in order
                    at = max(at, last + 1)
                    if last >= end:
                        beyond = True
                        messages = [one for one in messages if one.offset() < end]
                    yield messages
        finally:
            self._ended = place, at
            if goes_on and at == end and not beyond:
                self._next = place, end
            else:
                with contextlib.suppress(RuntimeError):  # it is closed
                    self._consumer.unassign()

    def _message_of(self, place: Place, message: Any) -> KafkaMessage:
        key, headers = None, ()
        if self._source.type is KafkaMessage:
            key, headers = message.key(), tuple(message.headers() or ())
        return KafkaMessage(
            message.value(), key, headers, time_of(message), *place, message.offset()
        )

    def close(self) -> None:
        self._consumer.close()

    def _offset_behind(self, message: Any) -> int:
        """Return the offset after a message, or after an end-of-partition event."""
        error = message.error()
        if error is None:
            self._answered_s = time.monotonic()
            return int(message.offset()) + 1
        codes = self._kafka.KafkaError
        if error.code() == codes._PARTITION_EOF:  # noqa: SLF001 - so it is named
            return int(message.offset())
        if error.code() == codes._AUTO_OFFSET_RESET:  # noqa: SLF001 - as above
            msg = (
                f"must find the messages that it has not read yet; {error.str()}; they "
                f"were deleted: keep messages for longer, or start again"
            )
            raise InputError(msg)
        self._lose_patience(error)
        return 0

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            answer = question()
        except self._kafka.KafkaException as error:
            self._lose_patience(error.args[0])
            return None
        self._answered_s = time.monotonic()
        return answer

    def _lose_patience(self, error: Any) -> None:
        away_s = time.monotonic() - self._answered_s
        if away_s < self._source.patience_s and not (error and error.fatal()):
            return
        why = "nothing came" if error is None else error.str()
        msg = (
            f"must reach the brokers at {self._source.servers}; for {away_s:.0f} s: "
            f"{why}; check that they run, or raise patience_s"
        )
        raise InputError(msg)


_TELL_S = 5.0
_STEP_S = 15.0  # duration of a transaction step before it is restarted
_given_up: list[Any] = []  # producers that would not end either
_DRAIN_S = 0.01
_RETRY_MS = 20  # instead of 100
_CONNECT_S = 0.5
_QUEUED = 1 << 21  # messages of an epoch; librdkafka also limits their bytes

_Message: TypeAlias = tuple[bytes | None, dict[str, Any]]  # and further arguments
_FIRST = {"partition": 0}


def _place_of(key: Any) -> dict[str, Any]:
    """Return where a message with a key goes.

    >>> _place_of(7)
    {'key': b'7'}
    """
    return {"key": str(key).encode()}


@dataclass(eq=False)
class KafkaSink(Sink):
    """A topic that grows epoch by epoch."""

    servers: str
    topic: str
    format: ValueFormat
    key: str | None = None
    patience_s: float = 60.0
    options: Any = None  # a mapping; kept as sorted pairs
    schema: Any = None  # of values in Avro; kept as text
    registry: str | None = None
    at_least_once: bool = False

    label: ClassVar[str] = "to_kafka"
    in_workers = True
    takes_tables = True

    def __post_init__(self) -> None:
        self.schema = _text_of_schema(self)
        self.options = tuple(sorted((self.options or {}).items()))
        self._kafka: Any = None
        self._encoder: AvroEncoder | LineEncoder | None = None
        self._whole = False  # whether items are messages
        self._producer: Any = None
        self._group: Any = None
        self._name = ""
        self._last = 0  # committed epoch
        self._undelivered: list[Any] = []  # errors, without transactions
        self._form: Form | None = None  # of the items, if they may come as a table
        self._held: Sequence[_Message] = ()  # of the current epoch

    def find_faults(self, type: Any) -> Iterable[tuple[str, str]]:
        if self.format == "avro" and self.schema is None and type is not KafkaMessage:
            return find_schema_faults(type)
        return ()

    def open(self, job: str, type: Any) -> int | None:
        """Fence off earlier runs of this sink, and return the last epoch they sent."""
        self._kafka = require("confluent_kafka", "kafka")
        self._whole = type is KafkaMessage
        if self.format == "avro" and not self._whole:
            self._encoder = AvroEncoder(type, self.schema, self.registry, self.topic)
        else:
            self._encoder = LineEncoder(self.format, None if self._whole else type)
        tabular = self.format == "jsonl" and type is not None
        self._form = form_of(type) if tabular else None
        self._name = f"anabranch-{job}"
        with self._errors():
            self._connect(time.monotonic() + self.patience_s)
        return None if self.at_least_once else self._last

    def _connect(self, until_s: float) -> None:
        """Replace all earlier producers; their open transactions are aborted."""
        if self._producer is not None:
            _given_up.append(self._producer)
        common = {
            "bootstrap.servers": self.servers,
            "log_level": 2,
            **dict(self.options),
        }
        # A transaction that begins while the broker still ends the one before is refused
        # at first, so most epochs wait for one retry.
        queue = {
            "queue.buffering.max.messages": _QUEUED,
            "retry.backoff.ms": _RETRY_MS,
        }
        # The producer decides how long it retries; it is given our limit.
        patience_ms = max(1, round(self.patience_s * 1000))
        if self.at_least_once:
            tries = {"enable.idempotence": True, "message.timeout.ms": patience_ms}
            self._producer = self._kafka.Producer({**queue, **common, **tries})
            return
        self._producer = self._kafka.Producer(
            {
                **queue,
                **common,
                "transactional.id": self._name,
                "transaction.timeout.ms": patience_ms,
            }
        )
        self._group = self._kafka.Consumer(
            {**common, "group.id": self._name, "enable.auto.commit": False}
        )
        # Without a connection, librdkafka looks for one only every half a second; it has
        # one once the consumer has been answered.
        with contextlib.suppress(self._kafka.KafkaException):
            self._group.committed([self._mark()], timeout=_CONNECT_S)
        self._begin(until_s)
        self._last = self._find_last()

    def _begin(self, until_s: float) -> None:
        """Have the brokers know the producer; try until then.

        The same producer tries again: if another took its place, the brokers could hear
        of it first, and take that one for the newer of the two.
        """
        while True:
            try:
                self._producer.init_transactions(self._step_s)
            except self._kafka.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > until_s:
                    raise
            else:
                return

    def write(self, items: Sequence[Any]) -> list[Malformed]:
        refused: list[Malformed] = []
        table = getattr(items, "table", None)
        held = None if table is None else self._read_table(table)
        if held is None:
            held, refused = self._make_messages(items)
        self._held = held
        with self._errors():
            if not self.at_least_once:
                self._producer.begin_transaction()
            self._send_lines()
        return refused

    def _read_table(self, table: Any) -> list[_Message] | None:
        """Return the messages of a table; None if they must be made item by item."""
        lines = None if self._form is None else json_of_table(table, self._form)
        if lines is None or self.key not in (None, *table.column_names):
            return None
        values: list[bytes] = [line.encode() for line in lines.to_pylist()]
        if self.key is None:
            return [(value, _FIRST) for value in values]
        keys = values_of(table.column(self.key))
        if not pa.types.is_floating(table.schema.field(self.key).type):
            known = {key: _place_of(key) for key in set(keys)}  # 0.0 is -0.0
            return [(v, known[key]) for v, key in zip(values, keys, strict=True)]
        return [(v, _place_of(key)) for v, key in zip(values, keys, strict=True)]

    def _make_messages(
        self, items: Sequence[Any]
    ) -> tuple[list[_Message], list[Malformed]]:
        """Return the messages of items, and the items that have none."""
        if self._whole:
            return [(item.value, self._describe(item)) for item in items], []
        assert self._encoder is not None  # noqa: S101 - it is open
        lines, refused = self._encoder.encode_all(items)
        if self.key is None:
            return [(line, _FIRST) for _, line in lines], refused
        get = attribute_getter(self.key)
        return [(line, _place_of(get(item))) for item, line in lines], refused

    def _describe(self, message: KafkaMessage) -> dict[str, Any]:
        """Return where a whole message goes, and what goes with it."""
        where = _FIRST if message.key is None else {"key": message.key}
        if self.key is not None:
            where = _place_of(attribute_getter(self.key)(message))
        also: dict[str, Any] = {"headers": list(message.headers)}
        if message.time_s is not None:
            also["timestamp"] = round(message.time_s * 1000)
        return {**where, **also}

    def prepare(self, epoch: int) -> None:
        if self.at_least_once:
            return
        with self._errors():
            self._insist(epoch, self._send_mark)

    def commit(self, epoch: int) -> None:
        if self.at_least_once:
            self._flush()
            return
        with self._errors():
            try:
                self._insist(epoch, self._commit)
            except BaseException:
                with contextlib.suppress(self._kafka.KafkaException):
                    self.abort(epoch)  # a fenced producer cannot
                raise
        self._held = ()

    def _insist(self, epoch: int, act: Callable[[int], None]) -> None:
        """Do a step of a transaction; if it does not end, restart the transaction.

        A producer may never again hear from a broker that was killed and restarted. The
        next producer aborts its transaction and checks whether the epoch was committed.
        One fenced off by another run is not replaced.
        """
        until_s = time.monotonic() + self.patience_s
        anew = False
        while self._last < epoch:
            try:
                if anew:
                    self._connect(until_s)
                    if self._last >= epoch:
                        return
                    self._producer.begin_transaction()
                    self._send_lines()
                    if act == self._commit:
                        self._send_mark(epoch)
                act(epoch)
            except self._kafka.KafkaException as error:
                if error.args[0].fatal() or time.monotonic() > until_s:
                    raise
                anew = True
            else:
                return

    @property
    def _step_s(self) -> float:
        return min(self.patience_s, _STEP_S)

    def _flush(self) -> None:
        """Wait until the brokers have all messages."""
        with self._errors():
            waiting = self._producer.flush(self.patience_s)
            failed, self._undelivered = self._undelivered, []
            if failed:
                raise self._kafka.KafkaException(failed[0])
            if waiting:
                code = self._kafka.KafkaError._TIMED_OUT  # noqa: SLF001 - so it is named
                raise self._kafka.KafkaException(self._kafka.KafkaError(code))
        self._held = ()

    def _note_delivery(self, error: Any, _: Any) -> None:
        if error is not None:
            self._undelivered.append(error)

    def _send_lines(self) -> None:
        topic, produce = self.topic, self._producer.produce
        told = {"on_delivery": self._note_delivery} if self.at_least_once else {}
        for value, where in self._held:
            while True:
                try:
                    produce(topic, value, **where, **told)
                except BufferError:  # full: let some of it drain
                    self._producer.poll(_DRAIN_S)
                else:
                    break

    def _send_mark(self, epoch: int) -> None:
        marks, group = [self._mark(epoch)], self._group.consumer_group_metadata()
        send = self._producer.send_offsets_to_transaction
        self._limit(lambda: send(marks, group, self._step_s))

    def _commit(self, epoch: int) -> None:
        commit = self._producer.commit_transaction
        self._limit(lambda: commit(self._step_s))
        self._last = epoch

    def _limit(self, act: Callable[[], None]) -> None:
        """Call librdkafka with a time limit of our own; it may hang regardless of its
        own.
        """
        failed: list[Exception] = []

        def run() -> None:
            try:
                act()
            except self._kafka.KafkaException as error:
                failed.append(error)

        thread = threading.Thread(target=run, name="anabranch-kafka", daemon=True)
        thread.start()
        thread.join(self._step_s + _TELL_S)
        if thread.is_alive():
            code = self._kafka.KafkaError._TIMED_OUT  # noqa: SLF001 - so it is named
            raise self._kafka.KafkaException(self._kafka.KafkaError(code))
        if failed:
            raise failed[0]

    def abort(self, epoch: int) -> None:
        if self.at_least_once:
            self._held = ()
            return
        abort = self._producer.abort_transaction
        self._limit(lambda: abort(_TELL_S))

    def addresses(self) -> list[tuple[str, int]]:
        return list_addresses(self.servers)

    def close(self) -> None:
        if self._group is not None:
            self._group.close()

    def _find_last(self) -> int:
        until_s = time.monotonic() + self.patience_s
        while True:
            try:
                (mark,) = self._group.committed([self._mark()], timeout=_TELL_S)
            except self._kafka.KafkaException:
                if time.monotonic() > until_s:
                    raise
                continue
            return max(0, int(mark.offset))

    def _mark(self, epoch: int = -1001) -> Any:
        return self._kafka.TopicPartition(self.topic, 0, epoch)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn the broker's errors into ours."""
        try:
            yield
        except self._kafka.KafkaException as error:
            msg = (
                f"must be able to send to topic {self.topic!r} at "
                f"{self.servers}; {error.args[0].str()}; check that the brokers "
                f"run, or raise patience_s"
            )
            fenced = error.args[0].code() in self._fenced_codes
            raise (FencedError if fenced else OutputError)(msg) from error

    @property
    def _fenced_codes(self) -> tuple[int, ...]:
        """The errors of a producer that another one with its name has replaced.

        It may have heard of that while it was sending; then all its calls just fail.
        """
        codes = self._kafka.KafkaError
        own = codes._FENCED, codes._FATAL  # noqa: SLF001 - librdkafka's own
        return *own, codes.PRODUCER_FENCED, codes.INVALID_PRODUCER_EPOCH
