"""Servers that tests of connectors start, once for all of them."""

from __future__ import annotations

import pytest

from tests import needs
from tests.connectors.database import Database, NoServerError
from tests.connectors.stores import (
    S3,
    Azure,
    Google,
    find_azurite,
    find_gcs,
    find_moto,
)


@pytest.fixture(
    params=[
        "sequential",
        "local",
        pytest.param("spark", marks=pytest.mark.spark),
    ]
)
def engine(request):
    """Every engine in turn: the same answer from each."""
    return request.param


@pytest.fixture(scope="session", params=["librdkafka", "kafka"])
def broker(request):
    """The broker of librdkafka, and Kafka itself."""
    if request.param == "kafka":
        return request.getfixturevalue("kafka")
    return request.getfixturevalue("mock_broker")


@pytest.fixture(scope="session")
def mock_broker():
    broker_of = pytest.importorskip(
        "tests.connectors.broker", reason=needs.why_left_out(needs.KAFKA)
    )
    running = broker_of.Broker()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def kafka(pytestconfig, tmp_path_factory):
    broker_of = pytest.importorskip(
        "tests.connectors.broker", reason=needs.why_left_out(needs.KAFKA)
    )
    if not broker_of.find_kafka():
        needs.leave_out(pytestconfig, needs.KAFKA_SERVER)
    running = broker_of.KafkaServer(tmp_path_factory.mktemp("kafka"))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def database(pytestconfig):
    pytest.importorskip("psycopg", reason=needs.why_left_out(needs.PSYCOPG))
    try:
        running = Database()
    except NoServerError as why:
        needs.leave_out(pytestconfig, needs.POSTGRES, str(why))
    yield running
    running.remove()


@pytest.fixture(scope="session")
def s3(pytestconfig):
    program = find_moto()
    if program is None:
        needs.leave_out(pytestconfig, needs.S3)
    running = S3(program)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def azure():
    program = find_azurite()
    if program is None:  # `make packages` has it only where there is npm
        pytest.skip(needs.why_left_out(needs.AZURE))
    running = Azure(program)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def google():
    program = find_gcs()
    if program is None:  # `make packages` has it only where there is Go
        pytest.skip(needs.why_left_out(needs.GOOGLE))
    running = Google(program)
    yield running
    running.stop()


@pytest.fixture(
    params=[
        "fsspec",
        "s3",
        pytest.param("azure", marks=pytest.mark.long),
        pytest.param("google", marks=pytest.mark.long),
    ]
)
def store(request, tmp_path):
    """A function that returns the URL of a key; all keys are new."""
    if request.param != "fsspec":
        server = request.getfixturevalue(request.param)
        folder = tmp_path.name
        return lambda key: server.url(f"{folder}/{key}")
    pytest.importorskip("fsspec")
    return lambda key: f"local://{tmp_path}/{key}"
