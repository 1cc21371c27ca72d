"""Kafka: the messages of a topic by offset, and items sent in transactions.

Reading: a broker may be away for `patience_s`. Offsets that were asked for stay the same
meanwhile, so nothing is lost and nothing comes twice.

Writing: the messages of an epoch are sent in one transaction. The number of the epoch is
committed in it, as the offset of a consumer group of the sink's own. An epoch that comes
again finds its number there and is not sent again. Readers that want whole epochs read
committed messages only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from anabranch.connectors.base import Malformed, Sink, Source, require
from anabranch.connectors.lines import LineEncoder, decoder_of
from anabranch.errors import InputError, OutputError
from anabranch.operators.getters import attribute_getter
from anabranch.operators.sources import RowFormat

_ASK_S = 2.0  # how long one question to the broker may take
_POLL_S = 0.2
_MESSAGES = 1000  # at a time

T = TypeVar("T")


class Message(NamedTuple):
    """A message: its place, what it holds, and its time since 1970 where it has one."""

    partition: int
    offset: int
    value: bytes | None
    born_s: float | None = None


@dataclass(eq=False)
class KafkaSource(Source):
    """The messages of a topic, one item each; a position is an offset.

    Without `follow` it ends behind the messages that are there when it begins.
    `patience_s` is how long a broker may be away.
    """

    servers: str
    topic: str
    type: Any
    format: RowFormat
    delimiter: str = ","
    start: Literal["earliest", "latest"] = "earliest"
    follow: bool = True
    patience_s: float = 60.0
    options: tuple[tuple[str, Any], ...] = ()

    label: ClassVar[str] = "kafka"

    def __post_init__(self) -> None:
        self.live = self.follow
        self._partitions: list[str] = []

    def partitions(self) -> list[str]:
        topic = self._connect()
        while True:  # somebody answers, or patience is lost
            found = topic.find_partitions()
            if found is not None:
                self._partitions = [str(number) for number in found]
            if self._partitions:
                return self._partitions

    def offsets(self, partition: str) -> tuple[int, int] | None:
        bounds = self._connect().find_bounds(int(partition))
        if bounds is not None and self.start == "latest" and self.follow:
            return bounds[1], bounds[1]
        return bounds

    def read(self, partition: str, position: int) -> Iterator[tuple[Message, int]]:
        topic = self._connect()
        while (bounds := topic.find_bounds(int(partition))) is None:
            pass
        for message in topic.read(int(partition), position, bounds[1]):
            yield message, message.offset + 1

    def decode(self, rows: Sequence[Message]) -> list[Any]:
        def where(index: int) -> str:
            at = rows[index]
            return f"topic {self.topic}, partition {at.partition}, offset {at.offset}"

        decoder = decoder_of(self, f"topic {self.topic}")
        return decoder.decode([row.value for row in rows], where)

    def born_s(self, row: Message) -> float | None:
        return row.born_s

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


_topics: WeakKeyDictionary[KafkaSource, Topic] = WeakKeyDictionary()


def list_addresses(servers: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of brokers.

    >>> list_addresses("a:9092, b:9093")
    [('a', 9092), ('b', 9093)]
    """
    places = (one.strip().rpartition(":") for one in servers.split(","))
    return [(host, int(port)) for host, _, port in places]


class Topic:
    """A topic as the brokers know it."""

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
                "fetch.wait.max.ms": 10,  # the next range waits for what is under way
                "reconnect.backoff.max.ms": 1000,
                "log_level": 2,
                **dict(source.options),
            },
        )
        self._answered_s = time.monotonic()

    def find_partitions(self) -> list[int] | None:
        """Return the partitions of the topic; None while no broker answers."""
        name = self._source.topic
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

    def find_bounds(self, partition: int) -> tuple[int, int] | None:
        """Return the first offset and the one behind the last; None: no answer."""
        place = self._kafka.TopicPartition(self._source.topic, partition)
        return self._ask(
            lambda: self._consumer.get_watermark_offsets(place, timeout=_ASK_S)
        )

    def read(self, partition: int, start: int, end: int) -> Iterator[Message]:
        """Yield the messages of a range of offsets.

        Some offsets hold no message (the marks of transactions, what was compacted).
        """
        self._consumer.assign(
            [self._kafka.TopicPartition(self._source.topic, partition, start)]
        )
        self._answered_s = time.monotonic()
        at = start
        while at < end:
            messages = self._consumer.consume(min(_MESSAGES, end - at), timeout=_POLL_S)
            if not messages:
                self._lose_patience(None)
            for message in messages:
                at = max(at, self._offset_behind(message))
                if message.error() is None and message.offset() < end:
                    yield _message_of(partition, message)
        self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()

    def _offset_behind(self, message: Any) -> int:
        """Return how far a message, or the news of an end, has brought us."""
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
                f"were deleted: keep messages for longer, or start anew"
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


def _message_of(partition: int, message: Any) -> Message:
    kind, time_ms = message.timestamp()
    born_s = time_ms / 1000 if kind else None  # 0: it has none
    return Message(partition, message.offset(), message.value(), born_s)


_TELL_S = 5.0


@dataclass(eq=False)
class KafkaSink(Sink):
    """A topic that grows by epochs."""

    servers: str
    topic: str
    format: RowFormat
    key: str | None = None
    patience_s: float = 60.0
    options: tuple[tuple[str, Any], ...] = ()

    label: ClassVar[str] = "to_kafka"

    def __post_init__(self) -> None:
        self._kafka: Any = None
        self._lines = LineEncoder(self.format, None)
        self._producer: Any = None
        self._group: Any = None

    def open(self, job: str, type: Any) -> int:
        """Shut out earlier runs of this sink, and return the last epoch they sent."""
        self._kafka = require("confluent_kafka", "kafka")
        self._lines = LineEncoder(self.format, type)
        name = f"anabranch-{job}"
        common = {
            "bootstrap.servers": self.servers,
            "log_level": 2,
            **dict(self.options),
        }
        # The producer has the last word on how long it tries; it is told ours.
        patience_ms = max(1, round(self.patience_s * 1000))
        self._producer = self._kafka.Producer(
            {**common, "transactional.id": name, "transaction.timeout.ms": patience_ms}
        )
        self._group = self._kafka.Consumer(
            {**common, "group.id": name, "enable.auto.commit": False}
        )
        with self._errors():
            self._producer.init_transactions(self.patience_s)
            return self._find_last()

    def write(self, items: Sequence[Any]) -> list[Malformed]:
        lines, refused = self._lines.encode_all(items)
        with self._errors():
            self._producer.begin_transaction()
            for item, line in lines:
                self._produce(item, line)
        return refused

    def prepare(self, epoch: int) -> None:
        with self._errors():
            self._producer.send_offsets_to_transaction(
                [self._mark(epoch)],
                self._group.consumer_group_metadata(),
                self.patience_s,
            )

    def commit(self, epoch: int) -> None:
        with self._errors():
            try:
                self._commit()
            except BaseException:
                self._producer.abort_transaction(_TELL_S)
                raise

    def abort(self, epoch: int) -> None:
        self._producer.abort_transaction(_TELL_S)

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

    def _commit(self) -> None:
        """Commit; while the broker is away, again, as librdkafka wants it."""
        until_s = time.monotonic() + self.patience_s
        while True:
            try:
                self._producer.commit_transaction(self.patience_s)
            except self._kafka.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > until_s:
                    raise
            else:
                return

    def _produce(self, item: Any, line: bytes) -> None:
        where: dict[str, Any] = {"partition": 0}
        if self.key is not None:
            where = {"key": str(attribute_getter(self.key)(item)).encode()}
        while True:
            try:
                self._producer.produce(self.topic, line, **where)
            except BufferError:  # full: let some of it go
                self._producer.poll(0.1)
            else:
                return

    def _mark(self, epoch: int = -1001) -> Any:
        return self._kafka.TopicPartition(self.topic, 0, epoch)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Tell what the broker has against it."""
        try:
            yield
        except self._kafka.KafkaException as error:
            msg = (
                f"must be able to send to topic {self.topic!r} at "
                f"{self.servers}; {error.args[0].str()}; check that the brokers "
                f"run, or raise patience_s"
            )
            raise OutputError(msg) from error
