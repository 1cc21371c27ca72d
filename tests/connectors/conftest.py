"""Servers that tests of connectors start, once for all of them."""

from __future__ import annotations

import pytest

from tests import needs
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
        "tests.connectors.broker", reason=needs.why_left_out(needs.KAFKA)
    )
    running = broker_of.Broker()
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
