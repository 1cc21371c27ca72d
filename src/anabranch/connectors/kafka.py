"""Kafka: what the brokers know of a topic, its messages by offset, and sending in transactions.

Which messages of a topic have arrived: ranges of offsets, each given out once.

What has arrived is taken partition by partition, in the order of the partitions, and
by offset within a partition. A topic that is followed gives every partition its share
of what is taken at a time; one that is not is read partition after partition, up to
where each of them ended when the reading began.

Read a Kafka topic: what the brokers know of it, and the messages of a range.

A broker may be away for as long as the source has patience. What was asked for stays
the same meanwhile, so nothing is lost and nothing comes twice.

Send items as messages to a Kafka topic: those of an epoch in one transaction.

The number of the epoch is committed in the same transaction, as the offset of a
consumer group of the sink's own. An epoch that comes again finds its number there and
is not sent again. Readers that want whole epochs read committed messages only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from anabranch.connectors.base import Malformed, Sink, require
from anabranch.connectors.external import LineEncoder
from anabranch.connectors.files.rows import BadRow
from anabranch.connectors.reader import LiveReader, refusal_at
from anabranch.connectors.socket import RowText
from anabranch.errors import InputError, OutputError
from anabranch.graph.graph import Op
from anabranch.operators.getters import attribute_getter
from anabranch.operators.sinks import ToKafka
from anabranch.operators.sources import Kafka
from anabranch.runtime.births import Births, births_of, on_this_clock
from anabranch.runtime.failures import Failure, OnError

_PARTITIONS_S = 10.0  # how often we ask whether there are new partitions


@dataclass(frozen=True)
class Range:
    """The messages of a partition from offset `start` up to `end`."""

    partition: int
    start: int
    end: int


class Message(NamedTuple):
    """A message: its offset, what it holds, and its time since 1970 where it has one."""

    offset: int
    value: bytes | None
    born_s: float | None = None


class Bounds(Protocol):
    """Who knows how far a topic reaches."""

    def partitions(self) -> list[int] | None:
        """Return the partitions of the topic; None while nobody answers."""

    def bounds(self, partition: int) -> tuple[int, int] | None:
        """Return the first offset and the one behind the last; None: no answer."""


class Ranges:
    """Hands out the offsets of a topic, each once."""

    def __init__(self, kind: Kafka, topic: Bounds) -> None:
        self._kind = kind
        self._topic = topic
        self._partitions: list[int] | None = None
        self._asked_s = 0.0
        self._ends: dict[int, int] = {}  # of what is not followed
        self.next: dict[int, int] = {}  # partition -> offset
        self.left = 0  # messages that were there and not taken, the last time

    @property
    def ended(self) -> bool:
        """Whether all has been taken that there will be."""
        if self._kind.follow or self._partitions is None:
            return False
        ends = self._ends
        return all(
            p in ends and self.next.get(p, ends[p]) >= ends[p] for p in self._partitions
        )

    def go_to(self, offsets: Mapping[int, int]) -> None:
        """Go on from offsets that were next at an earlier time."""
        self.next = dict(offsets)

    def take(self, most: int) -> list[Range]:
        """Return what has arrived, up to so many offsets."""
        now_s = time.monotonic()
        if self._partitions is None or now_s - self._asked_s > _PARTITIONS_S:
            self._partitions = self._topic.partitions() or self._partitions
            self._asked_s = now_s
        available: dict[int, int] = {}
        for partition in self._partitions or ():
            end = self._end(partition)
            if end is not None and end > self.next[partition]:
                available[partition] = end - self.next[partition]
        fill = _in_shares if self._kind.follow else _in_turn
        ranges = []
        for partition, count in sorted(fill(available, most).items()):
            start = self.next[partition]
            self.next[partition] = start + count
            ranges.append(Range(partition, start, start + count))
        self.left = sum(available.values()) - sum(r.end - r.start for r in ranges)
        return ranges

    def _end(self, partition: int) -> int | None:
        """Return up to where a partition may be read; None: nobody knows yet."""
        if partition in self._ends:
            return self._ends[partition]
        bounds = self._topic.bounds(partition)
        if bounds is None:
            return None
        low, high = bounds
        latest = self._kind.start == "latest" and self._kind.follow
        self.next.setdefault(partition, high if latest else low)
        if not self._kind.follow:
            self._ends[partition] = high
        return high


def _in_turn(available: Mapping[int, int], most: int) -> dict[int, int]:
    """Return how much to take of each: all of the first ones.

    >>> _in_turn({0: 5, 1: 5}, 7)
    {0: 5, 1: 2}
    """
    taken = {}
    for partition, count in sorted(available.items()):
        if most > 0:
            taken[partition] = min(count, most)
            most -= taken[partition]
    return taken


def _in_shares(available: Mapping[int, int], most: int) -> dict[int, int]:
    """Return how much to take of each: the same of all, as far as there is so much.

    >>> _in_shares({0: 100, 1: 2, 2: 100}, 10)
    {1: 2, 0: 4, 2: 4}
    """
    taken = {}
    left = len(available)
    for partition, count in sorted(available.items(), key=lambda pair: pair[1]):
        share = min(count, -(-most // left))
        if share:
            taken[partition] = share
        most -= share
        left -= 1
    return taken


_ASK_S = 2.0  # how long one question to the broker may take
_POLL_S = 0.2
_MESSAGES = 10_000

T = TypeVar("T")


class Topic:
    """A topic as the brokers know it."""

    def __init__(self, op: Op) -> None:
        assert isinstance(op.kind, Kafka)  # noqa: S101
        self._op = op
        self._kind = op.kind
        self._kafka = require("confluent_kafka", "kafka")
        self._consumer = self._kafka.Consumer(
            {
                "bootstrap.servers": op.kind.servers,
                "group.id": "anabranch",  # nothing is ever committed under it
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 10,  # the next range waits for what is under way
                "reconnect.backoff.max.ms": 1000,
                "log_level": 2,
                **dict(op.kind.options),
            },
        )
        self._answered_s = time.monotonic()

    def partitions(self) -> list[int] | None:
        """Return the partitions of the topic; None while no broker answers."""
        name = self._kind.topic
        found = self._ask(lambda: self._consumer.list_topics(name, timeout=_ASK_S))
        if found is None:
            return None
        topic = found.topics[name]
        if topic.error is not None:
            if topic.error.retriable():
                return None
            msg = (
                f"source {self._op.name!r} ({self._op.site}) must read a topic that "
                f"exists; {name!r} at {self._kind.servers}: {topic.error.str()}"
            )
            raise InputError(msg)
        return sorted(topic.partitions)

    def bounds(self, partition: int) -> tuple[int, int] | None:
        """Return the first offset and the one behind the last; None: no answer."""
        place = self._kafka.TopicPartition(self._kind.topic, partition)
        return self._ask(
            lambda: self._consumer.get_watermark_offsets(place, timeout=_ASK_S)
        )

    def read(self, wanted: Range) -> list[Message]:
        """Return the messages of a range with their offsets.

        Some offsets hold no message (the marks of transactions, what was compacted).
        """
        name, start = self._kind.topic, wanted.start
        self._consumer.assign(
            [self._kafka.TopicPartition(name, wanted.partition, start)],
        )
        self._answered_s = time.monotonic()
        found: list[Message] = []
        at = start
        while at < wanted.end:
            most = min(_MESSAGES, wanted.end - at)
            messages = self._consumer.consume(most, timeout=_POLL_S)
            if not messages:
                self._lose_patience(None)
            for message in messages:
                at = max(at, self._offset_behind(message))
                if message.error() is None and message.offset() < wanted.end:
                    found.append(_message_of(message))
        self._consumer.unassign()
        return found

    def refusal(self, partition: int, offset: int, bad: BadRow) -> Failure:
        """Return the failure of a message that cannot be read."""
        where = f"topic {self._kind.topic}, partition {partition}, offset {offset}"
        return refusal_at(self._op, where, bad, "correct what is sent")

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
                f"source {self._op.name!r} ({self._op.site}) must find the messages "
                f"that it has not read yet; {error.str()}; they were deleted: keep "
                f"messages for longer, or start anew"
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
        if away_s < self._kind.patience_s and not (error and error.fatal()):
            return
        why = "nothing came" if error is None else error.str()
        msg = (
            f"source {self._op.name!r} ({self._op.site}) must reach the brokers at "
            f"{self._kind.servers}; for {away_s:.0f} s: {why}; check that they run, "
            f"or raise patience_s"
        )
        raise InputError(msg)


class KafkaReader(LiveReader):
    """The items of a topic as they arrive."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, Kafka)  # noqa: S101
        self._name = op.name
        self._on_error = on_error
        self._topic = Topic(op)
        self._ranges = Ranges(op.kind, self._topic)
        self._text = RowText(op.kind, f"topic {op.kind.topic}")
        self._next = 1

    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        ranges = self._ranges.take(most)
        self.ended = self._ranges.ended
        if not ranges and not self.ended:
            time.sleep(wait_s)
        found: list[tuple[Any, int]] = []
        times_s: list[float] = []
        for one in ranges:
            items, births = read_messages(
                one, self._next, self._topic, self._text, self._on_error
            )
            found += items
            times_s += births or ()
            self._next += one.end - one.start
        births = births_of(times_s)
        self.births = None if births is None else on_this_clock(births)
        return found

    def count_arrivals(self) -> int:
        return self._next - 1 + self._ranges.left

    def where(self, number: int) -> str:
        return f"message {number} of {self._name}"

    def close(self) -> None:
        self.ended = True
        self._topic.close()


def read_messages(
    wanted: Range, first: int, topic: Topic, text: RowText, on_error: OnError
) -> tuple[list[tuple[Any, int]], Births | None]:
    """Return the items of a range of messages, and their births since 1970.

    The message at the start of the range has number `first`.
    """
    messages = topic.read(wanted)
    numbers = [message.offset - wanted.start + first for message in messages]

    def refuse(bad: BadRow) -> None:
        offset = bad.at.row - first + wanted.start
        on_error(topic.refusal(wanted.partition, offset, bad))

    values = [message.value for message in messages]
    times_s = [one.born_s for one in messages if one.born_s is not None]
    return text.messages(values, numbers, refuse), births_of(times_s)


def _message_of(message: Any) -> Message:
    kind, time_ms = message.timestamp()
    born_s = time_ms / 1000 if kind else None  # 0: it has none
    return Message(message.offset(), message.value(), born_s)


_TELL_S = 5.0


class KafkaSink(Sink):
    """A topic that grows by epochs."""

    def __init__(self, kind: ToKafka) -> None:
        self._kind = kind
        self._kafka = require("confluent_kafka", "kafka")
        self._lines = LineEncoder(kind.format, None)
        self._producer: Any = None
        self._group: Any = None

    def open(self, job: str, type: Any) -> int:
        """Shut out earlier runs of this sink, and return the last epoch they sent."""
        self._lines = LineEncoder(self._kind.format, type)
        name = f"anabranch-{job}"
        common = {
            "bootstrap.servers": self._kind.servers,
            "log_level": 2,
            **dict(self._kind.options),
        }
        # The producer has the last word on how long it tries; it is told ours.
        patience_ms = max(1, round(self._kind.patience_s * 1000))
        self._producer = self._kafka.Producer(
            {**common, "transactional.id": name, "transaction.timeout.ms": patience_ms}
        )
        self._group = self._kafka.Consumer(
            {**common, "group.id": name, "enable.auto.commit": False}
        )
        with self._errors():
            self._producer.init_transactions(self._kind.patience_s)
            return self._find_last()

    def write(self, items: Sequence[Any]) -> list[Malformed]:
        lines, refused = self._lines.all_encoded(items)
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
                self._kind.patience_s,
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

    def close(self) -> None:
        if self._group is not None:
            self._group.close()

    def _find_last(self) -> int:
        until_s = time.monotonic() + self._kind.patience_s
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
        until_s = time.monotonic() + self._kind.patience_s
        while True:
            try:
                self._producer.commit_transaction(self._kind.patience_s)
            except self._kafka.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > until_s:
                    raise
            else:
                return

    def _produce(self, item: Any, line: bytes) -> None:
        where: dict[str, Any] = {"partition": 0}
        if self._kind.key is not None:
            where = {"key": str(attribute_getter(self._kind.key)(item)).encode()}
        while True:
            try:
                self._producer.produce(self._kind.topic, line, **where)
            except BufferError:  # full: let some of it go
                self._producer.poll(0.1)
            else:
                return

    def _mark(self, epoch: int = -1001) -> Any:
        return self._kafka.TopicPartition(self._kind.topic, 0, epoch)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Tell what the broker has against it."""
        try:
            yield
        except self._kafka.KafkaException as error:
            msg = (
                f"must be able to send to topic {self._kind.topic!r} at "
                f"{self._kind.servers}; {error.args[0].str()}; check that the brokers "
                f"run, or raise patience_s"
            )
            raise OutputError(msg) from error
