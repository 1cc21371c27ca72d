"""Avro values of Kafka messages, with a schema registry and without."""

import datetime as dt
import http.server
import io
import json
import threading
import uuid
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import pytest

import anabranch as ab
from anabranch.connectors.avro import AvroDecoder, AvroEncoder, schema_of
from anabranch.errors import ArgumentError, GraphError, InputError
from tests.connectors.items import Reading, readings, total, totals
from tests.needs import KAFKA, why_left_out

fastavro = pytest.importorskip("fastavro", reason=why_left_out(KAFKA))
pytest.importorskip("confluent_kafka", reason=why_left_out(KAFKA))


class Side(Enum):
    BUY = "buy"
    SELL = "sell"


class Leg(NamedTuple):
    price: Decimal
    size: int


class Order(NamedTuple):
    id: uuid.UUID
    at: dt.datetime
    day: dt.date
    side: Side
    legs: list[Leg]
    tags: dict[str, float | None]
    note: str | None
    raw: bytes
    waited: dt.timedelta
    first: Leg | None = None


ORDER = Order(
    uuid.UUID(int=7),
    dt.datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=dt.UTC),
    dt.date(2026, 1, 31),
    Side.SELL,
    [Leg(Decimal("0.10"), 2), Leg(Decimal("1e30"), -(2**63))],
    {"a": 0.1, "b": None},
    None,
    b"\x00\xff",
    dt.timedelta(days=-1, microseconds=1),
    Leg(Decimal(3), 4),
)


class Registry(http.server.BaseHTTPRequestHandler):
    """What of a schema registry a client needs: schemas by number and by subject."""

    schemas: ClassVar[list[str]] = []
    subjects: ClassVar[list[str]] = []

    def do_GET(self):
        number = int(self.path.rpartition("/")[2])
        if number >= len(self.schemas):
            self.answer(404, {"error_code": 40403, "message": "Schema not found"})
        else:
            self.answer(200, {"schema": self.schemas[number]})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        schema = json.loads(body)["schema"]
        self.subjects.append(self.path)
        if schema not in self.schemas:
            self.schemas.append(schema)
        self.answer(200, {"id": self.schemas.index(schema)})

    def answer(self, status, data):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(data).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def registry():
    Registry.schemas, Registry.subjects = ['"string"'], []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def write(schema: Any, value: Any) -> bytes:
    """Write a value as another program does."""
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), value)
    return file.getvalue()


@pytest.mark.parametrize("named", [False, True], ids=["bare", "registry"])
def test_a_value_of_every_type_comes_back_equal(registry, named):
    where = registry if named else None
    encoder = AvroEncoder(Order, None, where, "orders")
    without = ORDER._replace(first=None, note="late", legs=[])

    ((_, one), (_, other)), refused = encoder.encode_all([ORDER, without])
    found = AvroDecoder(Order, None, where).decode([one, other], str)

    assert ([ORDER, without], []) == (found, refused)
    assert (b"\x00\x00\x00\x00\x01" if named else one[:5]) == one[:5]
    assert (["/subjects/orders-value/versions"] if named else []) == Registry.subjects


def test_a_topic_goes_through_a_program_into_another(engine, broker, registry):
    items = readings(60)
    topic, back = broker.topic(), broker.topic()
    schema = schema_of(Reading)
    Registry.schemas.append(json.dumps(schema))
    values = [b"\x00\x00\x00\x00\x01" + write(schema, one._asdict()) for one in items]
    broker.send(topic, values)
    avro: dict[str, Any] = {"format": "avro", "registry": registry}
    source = ab.kafka(broker.servers, topic, Reading, follow=False, **avro)
    sums = source.key_by("sensor").scan(total, 0)

    ab.run(sums.to_kafka(broker.servers, back, **avro), on=engine, epoch_items=20)

    written = fastavro.parse_schema(json.loads(Registry.schemas[2]))
    got = [
        fastavro.schemaless_reader(io.BytesIO(value[5:]), written, None)
        for value in broker.received(back, len(items))
    ]
    assert [{"sensor": s, "total": t} for s, t in totals(items)] == got


def test_fields_are_matched_by_name_whoever_wrote_them():
    schema = {
        "type": "record",
        "name": "Foreign",
        "fields": [
            {"name": "size", "type": "int"},
            {
                "name": "more",
                "type": {"type": "long", "logicalType": "timestamp-millis"},
            },
            {
                "name": "price",
                "type": {
                    "type": "bytes",
                    "logicalType": "decimal",
                    "precision": 9,
                    "scale": 2,
                },
            },
        ],
    }
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    value = write(schema, {"size": 3, "more": now, "price": Decimal("1.50")})

    found = AvroDecoder(Leg, json.dumps(schema), None).decode([value], str)

    assert [Leg(Decimal("1.50"), 3)] == found


BAD = {
    "nothing": (None, "must have a value"),
    "no number of a schema": (b"\x05ab", "must begin with a zero byte"),
    "cut off": (b"\x00\x00\x00\x00\x00\x08ab", "must be Avro of its schema"),
    "too long": (b"\x00\x00\x00\x00\x00\x02ab", "there are bytes behind it"),
    "of another type": (b"\x00\x00\x00\x00\x00\x02a", "must be"),
}


@pytest.mark.parametrize(("value", "words"), BAD.values(), ids=BAD)
def test_a_bad_value_is_refused_at_its_place(registry, value, words):
    kind = int if words == "must be" else str

    (found,) = AvroDecoder(kind, None, registry).decode([value], "row {}".format)

    assert ("row 0", value) == (found.where, found.raw)
    assert words in str(found.reason)


def test_a_schema_that_the_registry_lacks_ends_the_job(registry):
    with pytest.raises(InputError, match=r"schemas/ids/77: .*Schema not found"):
        AvroDecoder(int, None, registry).decode([b"\x00\x00\x00\x00\x4d\x02"], str)


def test_an_item_that_does_not_fit_is_given_back():
    encoder = AvroEncoder(Leg, None, None, "legs")

    found, refused = encoder.encode_all([Leg(Decimal(1), 2**63), Leg(Decimal(1), 2)])

    assert [Leg(Decimal(1), 2)] == [item for item, _ in found]
    assert [Leg(Decimal(1), 2**63)] == [one.raw for one in refused]


REFUSED: dict[str, Any] = {
    "a registry for JSON": lambda: ab.kafka("h:1", "t", int, registry="http://r"),
    "a schema for CSV": lambda: ab.from_iterable([1], int).to_kafka(
        "h:1", "t", format="csv", schema="long"
    ),
}


@pytest.mark.parametrize("write_program", REFUSED.values(), ids=REFUSED)
def test_options_of_avro_are_refused_for_other_formats(write_program):
    with pytest.raises(ArgumentError, match=r"are for format=\"avro\""):
        write_program()


class Counts(NamedTuple):
    by_number: dict[int, str]


NO_SCHEMA: dict[str, Any] = {
    "a source": lambda: ab.kafka("h:1", "t", Counts, format="avro").to_list(),
    "a sink of anything": lambda: ab.from_iterable([1]).to_kafka(
        "h:1", "t", format="avro"
    ),
}


@pytest.mark.parametrize("write_program", NO_SCHEMA.values(), ids=NO_SCHEMA)
def test_a_type_without_a_schema_is_refused_before_the_program_runs(write_program):
    with pytest.raises(GraphError, match=r"test_avro.py:\d+: .*Avro"):
        ab.explain(write_program())
