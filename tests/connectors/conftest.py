"""Servers that tests of connectors start, once for all of them."""

from __future__ import annotations

import pytest

from tests.connectors.database import Database, NoServerError


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


@pytest.fixture(scope="session")
def broker():
    broker_of = pytest.importorskip(
        "tests.connectors.broker", reason="confluent-kafka is not installed"
    )
    running = broker_of.Broker()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def database():
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    try:
        running = Database()
    except NoServerError as why:
        pytest.skip(f"needs a Postgres server: {why}")
    yield running
    running.remove()
