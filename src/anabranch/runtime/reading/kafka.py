"""Read a Kafka topic: what the brokers know of it, and the messages of a range.

A broker may be away for as long as the source has patience. What was asked for stays
the same meanwhile, so nothing is lost and nothing comes twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.graph.sources import Kafka
from anabranch.runtime.extras import required
from anabranch.runtime.failures import Failure, OnError
from anabranch.runtime.reading.live import LiveReader
from anabranch.runtime.reading.offsets import Range, Ranges
from anabranch.runtime.reading.reader import refusal_at
from anabranch.runtime.reading.rows import BadRow
from anabranch.runtime.reading.rowtext import RowText

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
        self._kafka = required("confluent_kafka", "kafka")
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
        found = self._asked(lambda: self._consumer.list_topics(name, timeout=_ASK_S))
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
        return self._asked(
            lambda: self._consumer.get_watermark_offsets(place, timeout=_ASK_S)
        )

    def read(self, wanted: Range) -> list[tuple[int, bytes | None]]:
        """Return the messages of a range with their offsets.

        Some offsets hold no message (the marks of transactions, what was compacted).
        """
        name, start = self._kind.topic, wanted.start
        self._consumer.assign(
            [self._kafka.TopicPartition(name, wanted.partition, start)],
        )
        self._answered_s = time.monotonic()
        found: list[tuple[int, bytes | None]] = []
        at = start
        while at < wanted.end:
            most = min(_MESSAGES, wanted.end - at)
            messages = self._consumer.consume(most, timeout=_POLL_S)
            if not messages:
                self._lose_patience(None)
            for message in messages:
                at = max(at, self._offset_behind(message))
                if message.error() is None and message.offset() < wanted.end:
                    found.append((message.offset(), message.value()))
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

    def _asked(self, question: Callable[[], T]) -> T | None:
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
        for one in ranges:
            found += read_messages(
                one, self._next, self._topic, self._text, self._on_error
            )
            self._next += one.end - one.start
        return found

    def where(self, number: int) -> str:
        return f"message {number} of {self._name}"

    def close(self) -> None:
        self.ended = True
        self._topic.close()


def read_messages(
    wanted: Range, first: int, topic: Topic, text: RowText, on_error: OnError
) -> list[tuple[Any, int]]:
    """Return the items of a range of messages; the one at its start has number `first`."""
    messages = topic.read(wanted)
    numbers = [offset - wanted.start + first for offset, _ in messages]

    def refuse(bad: BadRow) -> None:
        offset = bad.at.row - first + wanted.start
        on_error(topic.refusal(wanted.partition, offset, bad))

    return text.messages([value for _, value in messages], numbers, refuse)
