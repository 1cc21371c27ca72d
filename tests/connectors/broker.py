"""Kafka brokers for tests: the one that librdkafka can start, and Kafka itself.

Each runs in a process of its own. It can be stopped and continued like any process, so
it can go away and come back; Kafka itself can also be killed and started again.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.needs import SERVERS

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

    def send(
        self, topic: str, values: Sequence[bytes | None], partition=0, **also
    ) -> None:
        for value in values:
            self._producer.produce(topic, value, partition=partition, **also)
        assert 0 == self._producer.flush(60)

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


_KAFKA = SERVERS / "kafka"
_START_S = 180.0
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
"""


def find_kafka() -> bool:
    """Tell whether the jars of Kafka are installed (`make packages`)."""
    return any(_KAFKA.glob("kafka_*.jar")) and shutil.which("java") is not None


class KafkaServer(Broker):
    """Kafka itself, one process for broker and controller, its data in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        port, controller = _find_port(), _find_port()
        text = _SETTINGS.format(port=port, controller=controller, folder=folder)
        (folder / "server.properties").write_text(text)
        identity = "AAAAAAAAAAAAAAAAAAAAAA"
        self._java("kafka.tools.StorageTool", "format", "-t", identity, "-c").wait()
        self.servers = f"127.0.0.1:{port}"
        self.start()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.servers, "log_level": 2}
        )

    def _java(self, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [
                    *("java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{_KAFKA}/*"),
                    *(*command, str(self._folder / "server.properties")),
                ],
                stdout=log,
                stderr=log,
            )

    def start(self) -> None:
        self._process = self._java("kafka.Kafka")
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        end_s = time.monotonic() + _START_S
        while True:
            try:
                admin.list_topics(timeout=3)
            except confluent_kafka.KafkaException:
                assert self._process.poll() is None, "Kafka has ended"
                assert time.monotonic() < end_s, (self._folder / "log").read_text()
                time.sleep(0.2)
            else:
                return

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def topic(self, partitions: int = 3) -> str:
        name = super().topic()
        self.make_topic(name, partitions)
        return name

    def make_topic(self, name: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)

    def grow(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(60)
        self._producer = confluent_kafka.Producer(  # which knows of them
            {"bootstrap.servers": self.servers, "log_level": 2}
        )


def _find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
