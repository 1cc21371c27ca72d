"""What some tests need beyond Python, Java and make, and what happens without it.

A test that lacks something is left out, and the last line of the run says so. With
`--all` (`make test-all`) nothing is left out: what is missing is then a failure.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SERVERS = Path(os.environ.get("ANABRANCH_SERVERS", ROOT / ".venv" / "servers"))
_MARK = "left out: needs "
MOST_ON_SPARK = 3  # tests of a file in a quick run


@dataclass(frozen=True)
class Need:
    """A thing that a test uses, and how to get it."""

    what: str
    how: str


BROWSER = Need("a browser", "Debian package chromium")
DATA = Need("real data", "put it into ../shared/data or name it by ANABRANCH_DATA")
POSTGRES = Need("a Postgres server", "Debian package postgresql")
PROMETHEUS = Need("Prometheus", "Debian package prometheus")
OTLP = Need("OpenTelemetry", "pip install 'anabranch[otlp]'")
KAFKA = Need("confluent-kafka", "pip install 'anabranch[kafka]'")
KAFKA_SERVER = Need("a Kafka server", "make packages")
PSYCOPG = Need("psycopg", "pip install 'anabranch[postgres]'")
S3 = Need("an S3 server", "make packages")
CONNECT = Need("Spark Connect's client", "pip install 'anabranch[connect]'")
AZURE = Need("an Azure emulator", "npm, and make packages")
GOOGLE = Need("a Google Cloud Storage emulator", "Go, and make packages")
OPENCV = Need("OpenCV", "pip install 'anabranch[lane]'")
CLUSTER = Need("a Spark cluster on loopback", "see bench/spark/cluster.py")
JAVA = Need("Java 17 or later", "Debian package openjdk-17-jre-headless")
MOUNT = Need("a small file system", "run as root, where `mount -t tmpfs` may be used")
NEEDS = (
    *(BROWSER, DATA, POSTGRES, PROMETHEUS, OTLP, KAFKA, KAFKA_SERVER, PSYCOPG),
    *(OPENCV, S3, AZURE, GOOGLE, MOUNT, CONNECT),
    *(CLUSTER, JAVA),
)


@dataclass
class _Run:
    """What was asked for; known before test files are read."""

    everything: bool = False


_run = _Run()


def configure(config: pytest.Config) -> None:
    """Take note of `--all`."""
    _run.everything = config.getoption("--all")


def why_left_out(need: Need, detail: str = "") -> str:
    """Return the reason of a skip, which the last line of the run counts."""
    return _MARK + need.what + (f": {detail}" if detail else "")


def leave_out(config: pytest.Config, need: Need, detail: str = "") -> None:
    """End the test that lacks `need`: it is skipped, or fails under `--all`."""
    if config.getoption("--all"):
        pytest.fail(f"needs {need.what}: {detail or need.how}", pytrace=False)
    pytest.skip(why_left_out(need, detail))


def quick(count: int, cases: Iterable[Any]) -> list[Any]:
    """Return cases of which only the first so many run without `--all`."""
    return [
        case if number < count else pytest.param(case, marks=pytest.mark.long)
        for number, case in enumerate(cases)
    ]


def share(every: int, cases: Iterable[Any]) -> list[Any]:
    """Return cases of which one in so many runs without `--all`, spread over them."""
    return [
        pytest.param(case, marks=pytest.mark.long) if number % every else case
        for number, case in enumerate(cases)
    ]


def quick_rows(count: int, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Return rows of values of which only the first so many run without `--all`."""
    return [
        pytest.param(*row, marks=() if number < count else pytest.mark.long)
        for number, row in enumerate(rows)
    ]


def count_examples(quick: int, everything: int) -> int:
    """Return how many examples a generated test has: more of them with `--all`."""
    return everything if _run.everything else quick


def find_browser() -> str | None:
    """Return the path of a browser that draws pages without a screen."""
    return shutil.which("chromium") or shutil.which("google-chrome")


def leave_out_without_connect(config: pytest.Config) -> None:
    """End a test of Spark Connect where its client cannot be imported."""
    if importlib.util.find_spec("grpc_status") is None:
        leave_out(config, CONNECT)


def find_data() -> Path | None:
    """Return the folder of real inputs."""
    named = os.environ.get("ANABRANCH_DATA", ROOT.parent / "shared" / "data")
    return Path(named) if Path(named).is_dir() else None


def take_out_long(items: list[pytest.Item]) -> int:
    """Leave out what is marked `long`, and most of Spark; return how many those were."""
    short = [item for item in items if item.get_closest_marker("long") is None]
    on_spark = [item.nodeid for item in short if item.get_closest_marker("spark")]
    left_out = set(on_spark) - set(choose_on_spark(on_spark))
    kept = [item for item in short if item.nodeid not in left_out]
    count = len(items) - len(kept)
    items[:] = kept
    return count


def choose_on_spark(tests: Iterable[str]) -> list[str]:
    """Return the tests on Spark that a quick run takes, since each takes a second.

    Of a test with several cases it takes the first, and of the tests of a file so many,
    spread over the file.

    >>> choose_on_spark(["f::a[1]", "f::a[2]", "f::b", "g::a[2]"])
    ['f::a[1]', 'f::b', 'g::a[2]']
    """
    first_cases: dict[str, dict[str, str]] = {}
    for test in tests:
        file, _, name = test.partition("::")
        cases = first_cases.setdefault(file, {})
        cases.setdefault(name.partition("[")[0], test)
    chosen = []
    for cases in first_cases.values():
        found = list(cases.values())
        count = min(MOST_ON_SPARK, len(found))
        chosen += [found[n * len(found) // count] for n in range(count)]
    return chosen


def describe_left_out(long: int, reasons: Iterable[str]) -> str | None:
    """Return one line about the tests that were left out, and how to run them.

    >>> describe_left_out(2, [why_left_out(BROWSER)])
    'Left out: 2 long tests, 1 that needs a browser (Debian package chromium). \
`make test-all` installs what Debian has and leaves nothing out.'
    >>> describe_left_out(0, ["only on Windows"])
    """
    counts = Counter(_name_of(reason) for reason in reasons)
    parts = []
    if long:
        parts.append(f"{long} long test{'s' * (long > 1)}")
    parts += [
        f"{count} that need{'s' * (count == 1)} {need.what} ({need.how})"
        for need in NEEDS
        if (count := counts[need.what])
    ]
    if not parts:
        return None
    hint = "`make test-all` installs what Debian has and leaves nothing out."
    return f"Left out: {', '.join(parts)}. {hint}"


def _name_of(reason: str) -> str | None:
    _, found, rest = reason.partition(_MARK)
    return rest.partition(":")[0] if found else None
