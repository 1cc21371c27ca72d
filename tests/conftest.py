"""What tests share: one Spark session for all of them, since a JVM starts slowly."""

from __future__ import annotations

import gc
import os
import signal
import sys

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from anabranch.engines.spark.session import check_java, open_session
from anabranch.epochs.transport.modules import find_modules_by_value, not_importable
from anabranch.errors import EngineError
from tests import needs
from tests.schedule import FileScheduling

# A JVM of the tests lives for minutes: it compiles quickly rather than well.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

# Processes that tests start would compile every file anew: a second each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# In the background of a shell SIGINT is ignored, and processes inherit that: those of
# tests that are sent one would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The S3 server of the tests takes any key; workers inherit it.
os.environ.setdefault("AWS_ACCESS_KEY_ID", "testing")
os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "testing")
# That of Azure takes one key, which everybody knows.
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
os.environ.setdefault("AZURE_STORAGE_ACCOUNT_KEY", _KEY)

# A busy machine is slow; how long a test takes says nothing about what it tests.
# Quick runs take a share of what is generated, `--all` takes as much as Hypothesis does.
settings.register_profile("anabranch", deadline=None, max_examples=30)
settings.register_profile("all", deadline=None)


def pytest_addoption(parser):
    parser.addoption(
        "--all",
        action="store_true",
        help="leave nothing out: run long tests, and fail where something is missing",
    )


def pytest_configure(config):
    needs.configure(config)
    settings.load_profile("all" if config.getoption("--all") else "anabranch")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for examples only in test files that have one: a fifth of the collection."""
    found = yield
    if ">>> " in file_path.read_text(encoding="utf-8", errors="ignore"):
        return found
    return [one for one in found if not isinstance(one, DoctestModule)]


def pytest_collection():
    """Collect tests without the garbage collector: nothing of them is garbage."""
    gc.disable()


def pytest_collection_finish():
    """Keep the garbage collector off what stays: all tests and what they import.

    A look at all of it takes 0.2 s, and Python takes one every few tests. Looking at the
    rest more seldom than Python does saves a tenth of the tests' time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return FileScheduling(config, log)


LONG = pytest.StashKey[int]()


def pytest_collection_modifyitems(config, items):
    """Leave out what takes long, unless `--all` asks for it."""
    if not config.getoption("--all"):
        config.stash[LONG] = needs.take_out_long(items)


def pytest_sessionfinish(session):
    """Tell the process that counts for all what this one has left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["long"] = session.config.stash.get(LONG, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take the count of a process of xdist: all of them collect the same tests."""
    count = getattr(node, "workeroutput", {}).get("long", 0)
    node.config.stash[LONG] = max(count, node.config.stash.get(LONG, 0))


def pytest_terminal_summary(terminalreporter, config):
    """Say in one line what was left out, and how to get it."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = (str(report.longrepr[2]) for report in skipped)
    line = needs.describe_left_out(config.stash.get(LONG, 0), reasons)
    if line is not None:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def spark(pytestconfig):
    """The session that all tests marked `spark` use; engines find it by themselves."""
    try:
        check_java()
    except EngineError as error:
        needs.leave_out(pytestconfig, needs.JAVA, str(error))
    session = open_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _one_session(request):
    """A test marked `spark` runs on the shared session without asking for it."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("spark")


@pytest.fixture(autouse=True, scope="module")
def _forget_programs():
    """Forget the program files that the tests of a file have loaded.

    Every job on Spark sends the classes of all that are loaded.
    """
    before = set(sys.modules)
    yield
    for module in (*find_modules_by_value(), *not_importable()):
        if module.__name__ not in before:
            sys.modules.pop(module.__name__, None)


@pytest.fixture(scope="session")
def data(pytestconfig):
    """The folder of real inputs."""
    folder = needs.find_data()
    if folder is None:
        needs.leave_out(pytestconfig, needs.DATA)
    return folder
