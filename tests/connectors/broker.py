"""A Kafka broker for tests: the one that librdkafka can start, in its own process.

It can be stopped and continued like any process, so it can go away and come back.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence

import confluent_kafka

_HOST = """
import sys, confluent_kafka
broker = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 2})
found = broker.list_topics(timeout=30).brokers.values()
print(",".join(f"{b.host}:{b.port}" for b in found), flush=True)
sys.stdin.read()
"""


class Broker:
    """A broker that runs; topics are made when they are first used."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HOST],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.servers = self._process.stdout.readline().strip()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.servers, "log_level": 2}
        )

    def topic(self) -> str:
        return f"topic-{uuid.uuid4().hex[:8]}"

    def send(self, topic: str, values: Sequence[bytes | None], partition=0) -> None:
        for value in values:
            self._producer.produce(topic, value, partition=partition)
        assert 0 == self._producer.flush(30)

    def received(self, topic: str, count: int, partition=0) -> list[bytes]:
        """Return the committed messages of a partition, which are `count`."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": uuid.uuid4().hex,
                "log_level": 2,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        found: list[bytes] = []
        while (message := consumer.poll(30)) is not None:
            if message.error() is not None:  # the end
                if len(found) >= count:
                    break
                continue
            found.append(message.value())
        consumer.close()
        return found

    def committed(self, topic: str, group: str, epoch: int) -> None:
        """Commit an epoch as a sink does."""
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.servers, "group.id": group}
        )
        mark = confluent_kafka.TopicPartition(topic, 0, epoch)
        consumer.commit(offsets=[mark], asynchronous=False)
        consumer.close()

    def go_away(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def come_back(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        self.come_back()
        self._process.kill()
        self._process.communicate()
