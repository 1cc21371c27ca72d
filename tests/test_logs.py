"""What the library logs: its loggers, its records, and that it prints nothing."""

from __future__ import annotations

import ast
import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.logs import JsonFormatter, announce, logger_of

PACKAGE = Path(__file__).parent.parent / "src" / "anabranch"
PRINTING = ("print", "sys.stderr.write", "sys.stdout.write", "logging.getLogger")
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def calls_in(path: Path, *names: str) -> list[ast.Call]:
    """Return the calls of some functions."""
    text = path.read_text(encoding="utf-8")
    if not any(f"{name}(" in text for name in names):
        return []
    nodes = ast.walk(ast.parse(text))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) in names]


def test_each_room_logs_under_its_own_name():
    named = {
        (room_of(path), call.args[0].value)
        for path in FILES
        for call in calls_in(path, "logger_of")
    }
    # Adaptations are those of a controller wherever they are taken down.
    allowed = {("metrics", "control")}

    assert {name for room, name in named if room != name} == {
        name for _, name in allowed
    }
    assert {"job", "control", "engines", "epochs", "runtime", "export"} <= {
        name for _, name in named
    }


def test_the_library_prints_nothing():
    printing = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path in FILES
        if room_of(path) not in ("cli", "logs")
        for call in calls_in(path, *PRINTING)
    ]

    assert [] == printing


def test_a_decision_is_logged_as_text_and_as_data(caplog):
    caplog.set_level(logging.INFO, logger="anabranch")
    job = ab.start(ab.generate(iter_forever).to_list(), on="local", degree=1)
    job._running.insert_port("to_list", why="a test")
    job.stop()

    (record,) = [one for one in caplog.records if one.name == "anabranch.control"]
    assert "adaptation" == record.event
    assert "insert a threaded port at to_list[0]" == record.fields["what"]
    assert "why=a test" in record.getMessage()
    line = json.loads(JsonFormatter().format(record))
    assert ("a test", "INFO", "anabranch.control") == (
        line["why"],
        line["level"],
        line["logger"],
    )
    ends = [one.fields["status"] for one in caplog.records if "status" in one.fields]
    assert ["stopped"] == ends


def iter_forever():
    number = 0
    while True:
        yield number
        number += 1


def test_a_job_that_fails_is_logged_as_an_error(caplog):
    with pytest.raises(ab.errors.OperatorError):
        ab.run(ab.from_iterable([0]).map(lambda n: 1 // n).to_list(), on="sequential")

    (record,) = [one for one in caplog.records if one.name == "anabranch.runtime"]
    assert logging.ERROR == record.levelno
    assert "OperatorError" in record.fields["error"]


def test_the_first_item_that_an_operator_leaves_out_is_a_warning(caplog):
    caplog.set_level(logging.INFO, logger="anabranch.runtime")
    out = ab.from_iterable([0, 0]).map(lambda n: 1 // n, name="ratio").to_list()

    ab.run(out, on="sequential", on_error="skip")

    found = [one for one in caplog.records if "operator" in one.fields]
    assert ["anabranch.runtime"] * 2 == [one.name for one in found]
    assert [logging.WARNING, logging.INFO] == [one.levelno for one in found]
    assert ["ratio", "ratio"] == [one.fields["operator"] for one in found]


def test_what_must_be_told_is_written_where_nothing_shows_it(capsys):
    announce(logger_of("job"), "dashboard: http://here")

    assert "dashboard: http://here\n" == capsys.readouterr().err


def test_what_must_be_told_is_logged_where_that_is_shown(capsys):
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    logger = logging.getLogger("anabranch")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        announce(logger_of("job"), "dashboard: http://here")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)

    assert "dashboard: http://here\n" == shown.getvalue()
    assert "" == capsys.readouterr().err


def test_nothing_is_shown_unless_it_is_asked_for():
    program = (
        "import anabranch as ab\n"
        "ab.run(ab.from_iterable([0]).map(lambda n: 1 // n).to_list(), "
        "on='sequential', on_error='skip')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ("", "") == (done.stdout, done.stderr)


def test_the_command_line_writes_lines_of_json(tmp_path):
    program = tmp_path / "job.py"
    program.write_text(
        "import anabranch as ab\nout = ab.from_iterable([1, 2]).to_list()\n"
    )

    options = ["--on", "sequential", "--log-json"]
    done = subprocess.run(
        [sys.executable, "-m", "anabranch.cli.main", "run", str(program), *options],
        capture_output=True,
        text=True,
        check=True,
    )

    lines = [json.loads(x) for x in done.stderr.splitlines() if x.startswith("{")]
    assert ["start", "end of the job"] == [line["event"] for line in lines]
    assert "finished" == lines[-1]["status"]
