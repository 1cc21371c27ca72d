"""Kafka as a source and as a sink, over TCP, against the broker of librdkafka."""

import time

import pytest

import anabranch as ab
from anabranch.connectors.external import open_external
from anabranch.connectors.kafka import KafkaSink
from anabranch.errors import InputError, OutputError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import WriteSink
from tests.connectors.items import Reading, as_json, readings, total, totals
from tests.connectors.waiting import until
from tests.needs import KAFKA, why_left_out

pytest.importorskip("confluent_kafka", reason=why_left_out(KAFKA))


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
