"""Send items as messages to a Kafka topic: those of an epoch in one transaction.

The number of the epoch is committed in the same transaction, as the offset of a
consumer group of the sink's own. An epoch that comes again finds its number there and
is not sent again. Readers that want whole epochs read committed messages only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.graph.sinks import ToKafka
from anabranch.runtime.extras import required
from anabranch.runtime.writing.external import External, LineEncoder, Refuse

_ASK_S = 5.0


class KafkaSink(External):
    """A topic that grows by epochs; `job` tells one job's epochs from another's."""

    def __init__(self, op: Op, item_type: Any, job: str) -> None:
        assert isinstance(op.kind, ToKafka)  # noqa: S101
        self._op = op
        self._kind = op.kind
        self._kafka = required("confluent_kafka", "kafka")
        self._lines = LineEncoder(op.kind.format, item_type)
        name = f"anabranch-{job}-{op.name}"
        common = {
            "bootstrap.servers": op.kind.servers,
            "log_level": 2,
            **dict(op.kind.options),
        }
        # The producer has the last word on how long it tries; it is told ours.
        patience_ms = max(1, round(op.kind.patience_s * 1000))
        self._producer = self._kafka.Producer(
            {**common, "transactional.id": name, "transaction.timeout.ms": patience_ms}
        )
        self._group = self._kafka.Consumer(
            {**common, "group.id": name, "enable.auto.commit": False}
        )
        self._done: int | None = None  # the last epoch that was sent

    def write(self, epoch: int, items: Sequence[Any], refuse: Refuse) -> int:
        lines = self._lines.all_encoded(items, refuse)
        if not lines:
            return 0
        try:
            if self._done is None:
                self._done = self._begun()
            if epoch > self._done:
                self._send(epoch, lines)
                self._done = epoch
        except self._kafka.KafkaException as error:
            raise self._failed(error.args[0]) from error
        return len(lines)

    def close(self) -> None:
        self._group.close()

    def _begun(self) -> int:
        """Shut out earlier runs of this sink, and return the last epoch they sent."""
        self._producer.init_transactions(self._kind.patience_s)
        until_s = time.monotonic() + self._kind.patience_s
        while True:
            try:
                (mark,) = self._group.committed([self._mark()], timeout=_ASK_S)
            except self._kafka.KafkaException:
                if time.monotonic() > until_s:
                    raise
                continue
            return max(0, int(mark.offset))

    def _send(self, epoch: int, lines: Sequence[tuple[Any, bytes]]) -> None:
        self._producer.begin_transaction()
        try:
            for item, line in lines:
                self._produce(item, line)
            self._producer.send_offsets_to_transaction(
                [self._mark(epoch)],
                self._group.consumer_group_metadata(),
                self._kind.patience_s,
            )
            self._commit()
        except BaseException:
            self._producer.abort_transaction(_ASK_S)
            raise

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
            where = {"key": str(getattr(item, self._kind.key)).encode()}
        while True:
            try:
                self._producer.produce(self._kind.topic, line, **where)
            except BufferError:  # full: let some of it go
                self._producer.poll(0.1)
            else:
                return

    def _mark(self, epoch: int = -1001) -> Any:
        return self._kafka.TopicPartition(self._kind.topic, 0, epoch)

    def _failed(self, error: Any) -> OutputError:
        return OutputError(
            f"sink {self._op.name!r} ({self._op.site}) must be able to send to topic "
            f"{self._kind.topic!r} at {self._kind.servers}; {error.str()}; check that "
            f"the brokers run, or raise patience_s"
        )
