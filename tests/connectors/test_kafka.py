"""Kafka as a source and as a sink, over TCP, against librdkafka's broker and Kafka."""

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.connectors import kafka as connector
from anabranch.connectors import partitions
from anabranch.connectors.external import open_external
from anabranch.connectors.files.arrow_items import form_of, to_table
from anabranch.connectors.kafka import KafkaSink, KafkaSource
from anabranch.epochs.intake.connectors import RangePiece, read_offsets
from anabranch.errors import ArgumentError, FencedError, InputError, OutputError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import WriteSink
from anabranch.runtime.batch import TableItems
from tests.connectors.items import Reading, as_json, readings, total, totals
from tests.needs import KAFKA, ROOT, why_left_out
from tests.waiting import until

confluent_kafka = pytest.importorskip("confluent_kafka", reason=why_left_out(KAFKA))


def test_a_topic_goes_through_a_program_into_another(engine, broker):
    items = readings(500)
    topic, back = broker.topic(), broker.topic()
    broker.send(topic, as_json(items))
    source = ab.kafka(broker.servers, topic, Reading, follow=False)
    sums = source.key_by("sensor").scan(total, 0)

    ab.run(sums.to_kafka(broker.servers, back), on=engine, epoch_items=200)

    expected = [
        b'{"sensor": "%s", "total": %d}' % (s.encode(), t) for s, t in totals(items)
    ]
    assert expected == broker.received(back, len(items))


def test_a_sink_at_least_once_sends_without_transactions(engine, broker):
    topic = broker.topic()
    numbers = ab.from_iterable(range(50), int)

    ab.run(
        numbers.to_kafka(broker.servers, topic, at_least_once=True),
        on=engine,
        epoch_items=20,
    )

    assert [b"%d" % n for n in range(50)] == broker.received(topic, 50)


def test_a_sink_at_least_once_that_cannot_send_says_so():
    sink = ab.from_iterable([1], int).to_kafka(
        "127.0.0.1:9", "numbers", at_least_once=True, patience_s=1
    )

    with pytest.raises(OutputError, match="must be able to send to topic 'numbers'"):
        ab.run(sink, on="sequential")


def test_partitions_are_read_one_after_another_each_by_offset(engine, broker):
    topic = broker.topic()
    for partition in (2, 0, 1):
        broker.send(topic, [b"%d-%d" % (partition, n) for n in range(30)], partition)
    out = ab.kafka(broker.servers, topic, follow=False).to_list()

    ab.run(out, on=engine, epoch_items=25)

    assert [f"{p}-{n}" for p in range(3) for n in range(30)] == out.items


def test_what_arrives_later_is_read_too_until_the_job_is_stopped(engine, broker):
    topic = broker.topic()
    broker.send(topic, [b"1", b"2"])
    out = ab.kafka(broker.servers, topic, int).to_list()
    job = ab.start(out, on=engine)

    until(job, lambda: len(out.items) == 2)
    broker.send(topic, [b"3"])
    until(job, lambda: len(out.items) == 3)
    job.stop()

    assert ("stopped", [1, 2, 3]) == (job.status, out.items)


def test_a_bad_message_is_a_dead_letter_and_its_neighbours_stay(engine, broker):
    topic = broker.topic()
    broker.send(topic, [b"1", b"x", b"", None, b"4\n5", b"6"])
    lost = []
    out = ab.kafka(broker.servers, topic, int, follow=False).to_list()

    ab.run(out, on=engine, on_error=ab.dead_letter(lost.append))

    assert [1, 6] == out.items
    assert [f"topic {topic}, partition 0, offset {n}" for n in (1, 2, 3, 4)] == sorted(
        failure.where for failure in lost
    )


def test_a_bad_message_stops_the_job_unless_told_otherwise(broker):
    topic = broker.topic()
    broker.send(topic, [b"1", b"x"])
    source = ab.kafka(broker.servers, topic, int, follow=False)

    with pytest.raises(InputError, match="partition 0, offset 1: must be JSON"):
        ab.run(source.to_list(), on="sequential")


FORMATS = {
    "text": (str, "text", [b"a b", b""], ["a b", ""]),
    "csv": (Reading, "csv", [b'"a,\nb",1', b"c,2\n"], [("a,\nb", 1), ("c", 2)]),
    "json over several lines": (
        Reading,
        "jsonl",
        [b'{"sensor":\n "a", "value": 1}'],
        [("a", 1)],
    ),
}


@pytest.mark.parametrize(
    ("kind", "form", "values", "items"), FORMATS.values(), ids=FORMATS
)
def test_a_message_is_one_row(broker, kind, form, values, items):
    topic = broker.topic()
    broker.send(topic, values)

    found = ab.testing.outputs(
        ab.kafka(broker.servers, topic, kind, format=form, follow=False)
    )

    assert items == found


@pytest.mark.long
@pytest.mark.parametrize(
    "engine", ["sequential", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_a_broker_that_goes_away_and_comes_back_loses_and_doubles_nothing(
    engine, broker
):
    topic = broker.topic()
    broker.send(topic, [b"%d" % n for n in range(100)])
    out = ab.kafka(broker.servers, topic, int).to_list()
    job = ab.start(out, on=engine, epoch_items=40)
    until(job, lambda: len(out.items) == 100)

    broker.go_away()
    assert not job.wait(timeout=3)  # longer than a question to the broker may take
    broker.come_back()
    broker.send(topic, [b"%d" % n for n in range(100, 150)])
    until(job, lambda: len(out.items) >= 150)
    job.stop()

    assert list(range(150)) == out.items


def test_a_broker_that_stays_away_is_told(broker):
    source = ab.kafka("127.0.0.1:1", "topic", int, patience_s=0.5)

    with pytest.raises(InputError, match=r"must reach the brokers at 127\.0\.0\.1:1"):
        ab.run(source.to_list(), on="sequential")


def test_a_sink_whose_broker_stays_away_is_told():
    sink = ab.from_iterable([1]).to_kafka("127.0.0.1:1", "topic", patience_s=1.5)

    with pytest.raises(OutputError, match="must be able to send to topic 'topic'"):
        ab.run(sink, on="sequential")


def test_items_with_the_same_key_stay_in_one_partition_in_order(broker):
    topic = broker.topic()
    items = readings(60)
    sink = ab.from_iterable(items, Reading).to_kafka(
        broker.servers, topic, format="csv", key="sensor"
    )

    ab.run(sink, on="sequential")

    found = [broker.received(topic, 0, partition=p) for p in range(4)]
    for sensor in ("s0", "s1", "s2"):
        own = [f"{s},{v}".encode() for s, v in items if s == sensor]
        (where,) = [p for p in found if own[0] in p]
        assert own == [m for m in where if m.startswith(sensor.encode())]


class Quote(NamedTuple):
    symbol: str
    price: float


@pytest.mark.parametrize(
    ("key", "keys"),
    [("symbol", [b'a"', b"b", b"b"]), ("price", [b"0.0", b"-0.0", b"1e+16"])],
)
def test_a_table_is_sent_as_its_items_are(broker, key, keys):
    topic, form = broker.topic(), form_of(Quote)
    items = [Quote('a"', 0.0), Quote("b", -0.0), Quote("b", 1e16)]
    kind = WriteSink(KafkaSink(broker.servers, topic, "jsonl", key))
    sink = open_external(Op("sink", kind), Quote, topic)

    sink.write(1, TableItems(to_table(items, form), pytest.fail), pytest.fail)

    sink.close()
    source = ab.kafka(broker.servers, topic, ab.KafkaMessage, follow=False)
    while len(found := ab.testing.outputs(source)) < 3:  # Kafka shows it a little later
        time.sleep(0.1)
    values = [
        b'{"symbol": "a\\"", "price": 0.0}',
        b'{"symbol": "b", "price": -0.0}',
        b'{"symbol": "b", "price": 1e+16}',
    ]
    assert sorted(zip(values, keys, strict=True)) == sorted(m[:2] for m in found)


def test_an_epoch_that_was_sent_is_not_sent_again(broker):
    topic = broker.topic()
    broker.send(topic, [b"0"])
    broker.committed(topic, f"anabranch-{topic}-sink", 7)
    kind = WriteSink(KafkaSink(broker.servers, topic, "jsonl"))
    sink = open_external(Op("sink", kind), int, topic)

    sink.write(7, [1, 2], pytest.fail)
    sink.write(8, [3], pytest.fail)

    sink.close()
    assert [b"0", b"3"] == broker.received(topic, 2)


def test_a_sink_that_another_process_has_opened_is_fenced_off(kafka):
    topic = kafka.topic()
    first, second = (KafkaSink(kafka.servers, topic, "jsonl") for _ in range(2))
    first.open(f"{topic}-sink", int)
    first.write([1])
    first.prepare(1)
    assert 0 == second.open(f"{topic}-sink", int)
    second.write([1])
    second.prepare(1)
    second.commit(1)

    with pytest.raises(FencedError, match="must be able to send"):
        first.commit(1)

    assert 1 == first.open(f"{topic}-sink", int)
    assert [b"1"] == kafka.received(topic, 1)
    first.close()
    second.close()


def test_an_item_that_cannot_be_sent_does_no_harm_to_the_others(engine, broker):
    topic = broker.topic()
    lost = []
    sink = ab.from_iterable([1, {2}, 3]).to_kafka(broker.servers, topic)

    ab.run(sink, on=engine, on_error=ab.dead_letter(lost.append))

    assert [b"1", b"3"] == broker.received(topic, 2)
    assert [{2}] == [failure.item for failure in lost]


def test_latency_counts_from_the_time_of_a_message(engine, broker):
    topic = broker.topic()
    broker.send(topic, [b"1", b"2"])
    time.sleep(0.2)
    out = ab.kafka(broker.servers, topic, int, follow=False).to_list()

    metrics = ab.run(out, on=engine).metrics()

    assert [1, 2] == out.items
    if engine != "sequential":
        assert 2 == metrics.latency.items
        assert 200 <= metrics.latency.p50_ms


def test_messages_are_read_and_sent_with_key_headers_and_time(engine, broker):
    topic, back = broker.topic(), broker.topic()
    sent = {"key": b"A", "headers": [("unit", b"EUR"), ("none", None)]}
    broker.send(topic, [b"1"], timestamp=1_700_000_000_500, **sent)
    broker.send(topic, [None], timestamp=1_700_000_001_000)

    def read(name):
        out = ab.kafka(broker.servers, name, ab.KafkaMessage, follow=False)
        return ab.testing.outputs(out)

    messages = ab.kafka(broker.servers, topic, ab.KafkaMessage, follow=False)
    ab.run(messages.to_kafka(broker.servers, back), on=engine)

    headers = (("unit", b"EUR"), ("none", None))
    expected = {
        (b"1", b"A", headers, 1_700_000_000.5),
        (None, None, (), 1_700_000_001.0),
    }
    assert expected == {message[:4] for message in read(topic)}
    while (
        len(sent_on := read(back)) < 2
    ):  # Kafka shows what is committed a little later
        time.sleep(0.1)
    assert expected == {message[:4] for message in sent_on}
    assert [(topic, 0, 0), (topic, 0, 1)] == [message[4:] for message in read(topic)]


def test_several_topics_are_read_by_a_list_or_a_pattern(engine, broker):
    first, second = broker.topic(), broker.topic()
    broker.send(first, [b"1", b"2"])
    broker.send(second, [b"3"])
    by_list = ab.kafka(broker.servers, [second, first], int, follow=False).to_list()
    pattern = f"^({first}|{second})$"
    by_pattern = ab.kafka(broker.servers, pattern, int, follow=False).to_list()

    ab.run(by_list, by_pattern, on=engine)

    assert [3, 1, 2] == by_list.items
    assert [1, 2, 3] == sorted(by_pattern.items)


def test_a_job_begins_with_the_first_message_of_a_time(engine, kafka):
    topic = kafka.topic()
    for second in range(5):
        kafka.send(topic, [b"%d" % second], timestamp=1_700_000_000_000 + 1000 * second)
    start = dt.datetime.fromtimestamp(1_700_000_002.5, dt.UTC)
    late = start + dt.timedelta(days=1)
    out = ab.kafka(kafka.servers, topic, int, follow=False, start=start).to_list()
    none = ab.kafka(kafka.servers, topic, int, follow=False, start=late).to_list()

    ab.run(out, none, on=engine)

    assert ([3, 4], []) == (out.items, none.items)


@pytest.mark.parametrize("start", ["lately", dt.datetime(2026, 1, 1)])  # noqa: DTZ001
def test_a_start_that_is_no_time_is_refused(start):
    with pytest.raises(ArgumentError, match="start must be"):
        ab.kafka("localhost:9092", "topic", start=start)


@pytest.mark.long
def test_new_partitions_are_read_while_the_job_runs(kafka, monkeypatch):
    """
    From their beginning, also where the job began behind the last messages.
    """
    monkeypatch.setattr(partitions, "_PARTITIONS_S", 0.2)
    topic = kafka.topic(partitions=1)
    kafka.send(topic, [b"0"])
    out = ab.kafka(kafka.servers, topic, int, start="latest").to_list()
    job = ab.start(out, on="sequential")
    while not out.items:  # until it has begun
        kafka.send(topic, [b"1"])
        time.sleep(0.1)

    kafka.grow(topic, 2)
    kafka.send(topic, [b"2", b"3"], partition=1)
    until(job, lambda: 3 in out.items)
    job.stop()

    assert [2, 3] == [item for item in out.items if item != 1]


@pytest.mark.long
@pytest.mark.parametrize(
    "engine", ["sequential", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_a_broker_that_is_killed_and_started_again_loses_and_doubles_nothing(
    engine, kafka
):
    topic, back = kafka.topic(1), kafka.topic(1)
    kafka.send(topic, [b"%d" % n for n in range(100)])
    seen = []
    numbers = ab.kafka(kafka.servers, topic, int, patience_s=300)
    sinks = (
        numbers.to_kafka(kafka.servers, back, patience_s=300),
        numbers.for_each(seen.append),
    )
    job = ab.start(*sinks, on=engine, epoch_items=40)
    until(job, lambda: len(seen) == 100)

    kafka.kill()
    assert not job.wait(timeout=1)
    kafka.start()
    kafka.send(topic, [b"%d" % n for n in range(100, 150)])
    until(job, lambda: len(seen) >= 150)
    job.stop()

    assert list(range(150)) == seen
    assert [b"%d" % n for n in range(150)] == kafka.received(back, 150)


@pytest.mark.long
def test_a_producer_is_not_fenced_off_by_those_it_has_replaced(kafka, monkeypatch):
    """A step is so short that many end before the broker is there again."""
    monkeypatch.setattr(connector, "_STEP_S", 0.2)
    monkeypatch.setattr(connector, "_TELL_S", 0.2)
    topic = kafka.topic(1)
    sink = KafkaSink(kafka.servers, topic, "jsonl", patience_s=300)
    sink.open("many-tries", int)
    kafka.kill()
    sink.write([1, 2, 3])
    timer = threading.Timer(3, kafka.start)
    timer.start()

    sink.prepare(1)
    sink.commit(1)

    timer.join()
    sink.close()
    assert [b"1", b"2", b"3"] == kafka.received(topic, 3)


@pytest.mark.long
@pytest.mark.spark
def test_what_a_killed_process_has_left_open_is_aborted(kafka, tmp_path):
    """
    Workers are killed inside the transaction of an epoch and when it is committed, the
    driver before an epoch is sent and after that.
    """
    topic, back = kafka.topic(1), kafka.topic(1)
    kafka.send(topic, [b"%d" % n for n in range(200)])
    faults = tmp_path / "faults"
    faults.mkdir()
    ended = []
    for places in (("prepared:2", "committed:3"), ("delivered:3",), ("sent:4",)):
        for place in places:
            (faults / place).touch()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.connectors.killed_sender"),
                *(kafka.servers, topic, back, str(tmp_path / "checkpoint")),
            ],
            cwd=ROOT,
            env={**os.environ, "ANABRANCH_FAULTS": str(faults)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        ended.append(done.returncode)

    assert [-signal.SIGKILL, -signal.SIGKILL, 0] == ended, done.stderr
    assert [] == list(faults.iterdir())
    assert [b"%d" % n for n in range(200)] == kafka.received(back, 200)


def read_both_ways(source, ranges):
    """Return what ranges give as tables where possible, and what they give as rows."""
    stream = ab.kafka(source.servers, source.topic, Reading, follow=False)
    (op,) = ab.compile(stream.to_list()).graph.sources
    fast, slow = [], []
    for start, end in ranges:
        failed = []
        wanted = partitions.OffsetRange("0", start, end)
        piece = RangePiece(op.name, 11 + start, end - start, wanted)
        read, _ = read_offsets(piece, op, failed.append, form_of(Reading))
        items = list(read.items)
        if read.table is not None:
            made = [Reading(*row.values()) for row in read.table.to_pylist()]
            items = list(zip(made, read.numbers.tolist(), strict=True))
        fast.append((items, [str(one.error) for one in failed]))
    for start, end in ranges:
        failed = []
        wanted = partitions.OffsetRange("0", start, end)
        rows = partitions.read_range(op, wanted, 11 + start)
        items = partitions.decode_rows(op, rows, failed.append)
        slow.append((items, [str(one.error) for one in failed]))
    partitions.source_of(op).close()
    return fast, slow, read


def test_brokers_go_on_sending_only_what_this_task_will_probably_read(broker):
    topic = broker.topic()
    broker.send(topic, as_json(readings(40)))
    source = KafkaSource(broker.servers, topic, Reading, "jsonl", follow=False)
    consumer = source._connect()._consumer
    assigned = []
    for start, end in [(0, 5), (10, 15), (15, 20), (20, 25), (30, 35)]:
        source.read_range("0", start, end)
        assigned.append(bool(consumer.assignment()))
    source.close()

    assert [False, False, True, True, False] == assigned


RANGES = [(0, 5), (5, 9), (9, 20), (3, 7), (7, 9), (0, 20), (20, 24)]


def test_a_range_read_as_a_table_is_what_its_rows_are(broker):
    topic = broker.topic()
    broker.send(topic, as_json(readings(24)))

    fast, slow, read = read_both_ways(
        SimpleNamespace(servers=broker.servers, topic=topic), RANGES
    )

    assert slow == fast
    assert [item for item, _ in fast[5][0]] == readings(20)
    assert [number for _, number in fast[1][0]] == [16, 17, 18, 19]
    assert read.table is not None


def test_a_range_with_bad_messages_is_what_its_rows_are(broker):
    topic = broker.topic()
    values = [*as_json(readings(22)), b"no", None]
    broker.send(topic, [values[n * 7 % 24] for n in range(24)])

    fast, slow, _ = read_both_ways(
        SimpleNamespace(servers=broker.servers, topic=topic), RANGES
    )

    assert slow == fast
    assert 2 == sum(len(failed) for _, failed in fast[5:])


def test_offsets_without_a_message_are_passed_over(kafka):
    """Each transaction ends with an offset of its own, and one of them is aborted."""
    topic = kafka.topic(1)
    values = as_json(readings(24))
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.servers, "transactional.id": topic}
    )
    producer.init_transactions(60)
    for start in range(0, 24, 6):
        producer.begin_transaction()
        for value in values[start : start + 6]:
            producer.produce(topic, value, partition=0)
        producer.flush(60)
        end = producer.abort_transaction if start == 6 else producer.commit_transaction
        end(60)

    ranges = [(0, 6), (6, 14), (14, 16), (16, 28), (0, 28)]
    fast, slow, _ = read_both_ways(
        SimpleNamespace(servers=kafka.servers, topic=topic), ranges
    )

    assert slow == fast
    assert [Reading(**json.loads(v)) for v in (*values[:6], *values[12:])] == [
        item for item, _ in fast[4][0]
    ]
