"""What tests share: one Spark session for all of them, since a JVM starts slowly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from anabranch.engines.spark.session import check_java, open_session
from anabranch.errors import EngineError

# A busy machine is slow; how long a test takes says nothing about what it tests.
settings.register_profile("anabranch", deadline=None)
settings.load_profile("anabranch")

ROOT = Path(__file__).resolve().parent.parent


def _why_no_spark() -> str | None:
    try:
        check_java()
    except EngineError as error:
        return str(error)
    return None


def pytest_collection_modifyitems(items):
    """Skip what needs Spark where there is no Java, and say so."""
    needy = [item for item in items if item.get_closest_marker("spark")]
    reason = _why_no_spark() if needy else None
    if reason is not None:
        for item in needy:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def spark():
    """The session that all tests marked `spark` use; engines find it by themselves."""
    session = open_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _one_session(request):
    """A test marked `spark` runs on the shared session without asking for it."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("spark")


@pytest.fixture(scope="session")
def data():
    """The folder of real inputs, or a skip where they are not at hand."""
    folder = Path(os.environ.get("ANABRANCH_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(
            "real data is in ../shared/data or $ANABRANCH_DATA; neither is here"
        )
    return folder
