"""The command line from the outside: what is printed, and the exit status."""

from __future__ import annotations

import json
import runpy
import signal
import subprocess
import sys
import time

import pytest

from anabranch.cli.main import main

PROGRAM = """
from typing import NamedTuple
import anabranch as ab

class Reading(NamedTuple):
    sensor: str
    value: float

readings = ab.read_csv("readings.csv", Reading)
halved = readings.map(lambda r: r._replace(value=1 / r.value))
program = halved.write_csv("halved")
twice = [halved.to_list(name="one"), halved.to_list(name="two")]
wrong = readings.key_by("sensr").window(count=2).aggregate(n=ab.count()).to_list()
missing = ab.read_csv("nowhere.csv", Reading).to_list()
"""
SEVERAL = """
import anabranch as ab

one = ab.from_iterable([1], int).to_list()

def make_two():
    return ab.from_iterable([2], int).to_list()

def add(n):
    return n + 1
"""
READINGS = "sensor,value\na,2\nb,4\na,8\n"
ENDLESS = """
import itertools, pathlib
import anabranch as ab
program = ab.generate(itertools.count).for_each(lambda n: pathlib.Path("begun").touch())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    sys.modules.pop("sensors", None)
    (tmp_path / "sensors.py").write_text(PROGRAM)
    (tmp_path / "readings.csv").write_text(READINGS)
    return tmp_path


def sequentially(*arguments):
    return main(["run", *arguments, "--on", "sequential"])


def test_a_wrong_name_is_told_with_the_sinks_and_functions_of_the_file(folder, capsys):
    (folder / "several.py").write_text(SEVERAL)

    assert 1 == main(["run", "several.py:zzz", "--on", "local"])
    assert "there are one, make_two" in " ".join(capsys.readouterr().err.split())


def test_a_latency_bound_is_a_goal(folder, capsys):
    assert 0 == main(["run", "sensors.py:twice", "--on", "local", "--latency", "50 ms"])


def test_a_bound_without_a_unit_is_refused(folder, capsys):
    with pytest.raises(SystemExit):
        main(["run", "sensors.py", "--on", "local", "--latency", "fast"])

    assert "text like '250 ms'; got 'fast'" in capsys.readouterr().err


def test_a_program_is_run_and_its_output_shown(folder, capsys):
    assert 0 == sequentially("sensors.py")

    said = capsys.readouterr()
    assert "" == said.out
    assert "read 3 items from read_csv" in said.err
    assert "wrote halved: 3 items\n    sensor,value\n    a,0.5\n    b,0.25" in said.err
    assert "sensor,value\na,0.5\nb,0.25\na,0.125\n" == "".join(
        part.read_text() for part in sorted((folder / "halved").glob("part-*"))
    )


def test_a_list_of_sinks_is_run_at_once(folder, capsys):
    assert 0 == sequentially("sensors.py:twice", "--show", "1")

    said = capsys.readouterr().err
    assert "one: 3 items" in said
    assert "two: 3 items" in said
    assert "    Reading(sensor='a', value=0.5)\n    ... 1 more\n" in said


def test_nothing_is_shown_if_nothing_is_asked_for(folder, capsys):
    assert 0 == sequentially("sensors.py:twice", "--show", "0")

    assert "Reading" not in capsys.readouterr().err


FAILING = {
    "a fault of the program": (["sensors.py:wrong"], "sensr", "sensors.py:13"),
    "a missing input": (["sensors.py:missing"], "nowhere.csv", ""),
    "a missing program": (["sensor.py"], "did you mean sensors.py?", ""),
    "a name that is nearly right": (["sensors.py:twic"], "did you mean 'twice'?", ""),
}


@pytest.mark.parametrize(
    ("arguments", "first", "second"), FAILING.values(), ids=FAILING
)
def test_an_error_is_one_message(folder, capsys, arguments, first, second):
    assert 1 == sequentially(*arguments)

    said = capsys.readouterr().err
    assert said.startswith("error AB")
    assert first in said
    assert second in said
    assert "Traceback" not in said


def test_an_item_that_fails_ends_the_job_and_leaves_no_output(folder, capsys):
    (folder / "readings.csv").write_text(READINGS + "c,0\n")

    assert 1 == sequentially("sensors.py")

    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert "item 4 of read_csv" in said
    assert "Traceback" not in said
    assert not (folder / "halved").exists()


@pytest.mark.parametrize("row", ["c,0", "c,x"])
def test_the_options_that_leave_items_out_are_named_with_the_failure(
    folder, capsys, row
):
    (folder / "readings.csv").write_text(READINGS + row + "\n")

    assert 1 == sequentially("sensors.py")
    said = " ".join(capsys.readouterr().err.split())
    assert "add --on-error skip, or --on-error FILE.jsonl to keep" in said


def test_items_that_fail_can_be_left_out(folder, capsys):
    (folder / "readings.csv").write_text(READINGS + "c,0\n")

    assert 0 == sequentially("sensors.py", "--on-error", "skip")
    said = capsys.readouterr().err
    assert "left out 1 item that failed at map\n" in said
    assert "wrote halved: 3 items" in said


def test_items_that_fail_can_be_noted_in_a_file(folder, capsys):
    (folder / "readings.csv").write_text(READINGS + "c,0\n")

    assert 0 == sequentially("sensors.py", "--on-error", "lost.jsonl")
    assert (
        "left out 1 item that failed at map: see lost.jsonl" in capsys.readouterr().err
    )

    (lost,) = map(json.loads, (folder / "lost.jsonl").read_text().splitlines())
    assert "map" == lost["operator"]
    assert "c" in lost["item"]


def test_the_command_is_a_module_too(monkeypatch, capsys):
    """For `python -m anabranch`, where the script is not on the path."""
    monkeypatch.setattr(sys, "argv", ["anabranch", "--version"])

    with pytest.raises(SystemExit) as ended:
        runpy.run_module("anabranch", run_name="__main__")

    assert 0 == ended.value.code
    assert capsys.readouterr().out.startswith("anabranch ")


MISUSED = {
    "no command": [],
    "an unknown engine": ["run", "sensors.py", "--on", "flink"],
    "a degree of nothing": ["run", "sensors.py", "--degree", "0"],
    "a degree in words": ["run", "sensors.py", "--degree", "two"],
    "an unknown way with errors": ["run", "sensors.py", "--on-error", "ignore"],
    "a drawing without a file": ["graph", "sensors.py"],
}


@pytest.mark.parametrize("arguments", MISUSED.values(), ids=MISUSED)
def test_misuse_has_a_status_of_its_own(folder, capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert 2 == ended.value.code
    assert "usage: anabranch" in capsys.readouterr().err


def test_a_program_is_explained(folder, capsys):
    assert 0 == main(["explain", "sensors.py"])

    assert "3 of 3 operators can run in parallel" in capsys.readouterr().out


def test_an_explanation_is_data_too(folder, capsys):
    assert 0 == main(["explain", "sensors.py", "--json"])

    told = json.loads(capsys.readouterr().out)
    assert {"operators", "subgraphs", "regions", "sequential", "elements"} <= set(told)
    assert ["read_csv", "map", "write_csv"] == [op["name"] for op in told["operators"]]


def test_a_program_is_drawn(folder, capsys):
    assert 0 == main(["graph", "sensors.py", "-o", "sensors.svg"])

    assert "<svg " in (folder / "sensors.svg").read_text()[:200]


@pytest.mark.parametrize("name", ["sensors.png", "sensors"])
def test_a_drawing_of_another_format_is_refused_before_anything_is_done(
    folder, capsys, name
):
    assert 1 == main(["graph", "no_such_program.py", "-o", name])
    assert "must name a file that ends in .svg" in capsys.readouterr().err
    assert not (folder / name).exists()


def test_a_drawing_that_cannot_be_written_is_told(folder, capsys):
    assert 1 == main(["graph", "sensors.py", "-o", "no/such/folder.svg"])
    assert "must be writable" in capsys.readouterr().err


def test_the_applications_are_listed(capsys, monkeypatch):
    """Whole, however narrow the terminal is."""
    monkeypatch.setenv("COLUMNS", "40")

    assert 0 == main(["apps"])

    said = capsys.readouterr().out
    assert "finance.py" in said
    assert "Volume-weighted average prices of stocks" in said


def test_benchmarks_are_listed_and_unknown_ones_refused(capsys):
    assert 0 == main(["bench"])
    assert "compile/time" in capsys.readouterr().out.split()

    assert 1 == main(["bench", "compile/tim"])
    assert "did you mean 'compile/time'?" in capsys.readouterr().err


def test_benchmarks_are_scripts_and_folders_and_not_what_they_share(capsys):
    main(["bench"])

    names = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {"all", "peers", "safe/fig7", "latency/fig4"} <= names
    assert not {"harness/timing", "harness/results", "safe/model"} & names


def test_a_folder_is_run_like_a_script(capfd):
    assert 0 == main(["bench", "peers", "--help"])
    assert "--trades" in capfd.readouterr().out


def test_help_of_a_benchmark_measures_nothing(capsys):
    assert 0 == main(["bench", "local/scaling", "--help"])

    assert "usage: anabranch bench local/scaling" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["compile/time", "compile_time"])
def test_a_benchmark_is_run_with_its_arguments_from_any_folder(
    name, capfd, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    assert 0 == main(["bench", name, "20"])
    assert '"operators": 20' in capfd.readouterr().out


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version(capsys, flag):
    with pytest.raises(SystemExit) as ended:
        main([flag])

    assert 0 == ended.value.code
    assert "anabranch" in capsys.readouterr().out


def test_the_program_that_the_help_shows_runs(folder, capsys):
    """
    The text between the comment with the file's name and the first command.
    """
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out.partition("# names.py\n")[2]
    lines = shown.partition("\n\n")[0].splitlines()
    (folder / "names.py").write_text("\n".join(line.strip() for line in lines))
    (folder / "words.txt").write_text("and Ada met Bob\n")

    assert 0 == sequentially("names.py")
    assert "value\nAda\nBob\n" == (folder / "names.csv").read_text()


def test_an_interrupt_stops_the_job_cleanly(folder):
    (folder / "endless.py").write_text(ENDLESS)
    command = [
        sys.executable,
        "-c",
        "import sys, anabranch.cli as c; sys.exit(c.main())",
    ]
    process = subprocess.Popen(
        [*command, "run", "endless.py", "--on", "sequential"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(folder / "begun")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()

    assert 130 == process.returncode, said
    assert "stopped early" in said
    assert "Traceback" not in said


COUNTING = """\
import time
from pathlib import Path
import anabranch as ab

def slowly(n: int) -> int:
    Path("begun").touch()
    time.sleep(0.001)
    return n

program = ab.from_iterable(range(1_000_000), int).map(slowly).write_csv("out")
"""


@pytest.mark.parametrize("engine", ["sequential", "local"])
def test_a_job_that_is_terminated_says_that_it_wrote_nothing(folder, engine):
    (folder / "counting.py").write_text(COUNTING)
    command = "import sys, anabranch.cli as c; sys.exit(c.main())"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "run", "counting.py", "--on", engine],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(folder / "begun")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()

    assert 143 == process.returncode, said
    assert "stopped early, so there is no output in files" in said
    assert "did not write out" in said
    assert [] == [path for path in folder.iterdir() if "out" in path.name]


def wait_for(path):
    for _ in range(3000):
        if path.exists():
            return
        time.sleep(0.02)
    pytest.fail(f"{path.name} did not appear within a minute")


def test_a_misspelt_command_gets_the_one_that_was_meant(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["explian", "sensors.py"])

    said = capsys.readouterr().err
    assert "there is no 'explian'; did you mean 'explain'?" in said


def test_a_misspelt_engine_gets_the_one_that_was_meant(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["run", "sensors.py", "--on", "sprak"])

    assert "did you mean 'spark'?" in capsys.readouterr().err


def test_a_command_line_without_a_command_gets_the_help(capsys):
    with pytest.raises(SystemExit, match="2"):
        main([])

    said = capsys.readouterr().err
    assert "make a project to start from" in said
    assert "anabranch run names.py" in said


@pytest.mark.spark
def test_a_finished_job_that_runs_again_is_said_to_have_finished_before(folder, capsys):
    again = ["run", "sensors.py", "--checkpoint", "kept"]
    assert 0 == main(again)
    first = capsys.readouterr().err
    assert 0 == main(again)

    said = capsys.readouterr().err
    assert "finished: on spark" in first
    assert "had already finished with this checkpoint: nothing was run" in said
    assert "to run it again, give an empty directory as checkpoint" in said
    assert "finished: on spark" not in said


@pytest.mark.spark
def test_a_program_runs_on_spark_with_a_degree(folder, capsys):
    assert 0 == main(["run", "sensors.py", "--degree", "2", "--epoch-items", "2"])

    said = capsys.readouterr().err
    assert "2 epochs" in said
    assert "wrote halved: 3 items" in said
    assert "a,0.5\n    b,0.25\n    a,0.125" in said


@pytest.mark.spark
def test_what_a_program_imports_from_its_folder_reaches_the_workers(folder, capsys):
    """
    The folder is not the one that the workers were started in.
    """
    (folder / "jobs").mkdir()
    (folder / "jobs" / "scaling.py").write_text("def scaled(n):\n    return n * 3\n")
    (folder / "jobs" / "scale.py").write_text(
        "import anabranch as ab\nfrom scaling import scaled\n"
        "program = ab.from_iterable([1, 2], int).map(scaled).to_list()\n"
    )

    assert 0 == main(["run", "jobs/scale.py"])
    assert "to_list: 2 items\n    3\n    6\n" in capsys.readouterr().err


@pytest.mark.parametrize("on", ["local", "sequential"])
def test_a_checkpoint_without_spark_is_refused_in_words(folder, capsys, on):
    assert 1 == main(["run", "sensors.py", "--on", on, "--checkpoint", "kept"])

    said = capsys.readouterr().err
    assert "error AB11: a checkpoint is kept on='spark' only" in said
    assert f"got on='{on}' and checkpoint='kept'" in said
    assert not (folder / "kept").exists()


def test_a_checkpoint_in_a_store_that_does_not_decide_is_refused(folder, capsys):
    """Before Spark starts, and by the command that shows one too."""
    store = "hdfs://name:8020/kept"
    assert 1 == main(["run", "sensors.py", "--checkpoint", store])
    assert "cannot decide which of two jobs continues" in capsys.readouterr().err

    with pytest.raises(SystemExit):
        main(["checkpoint", store])
    assert "cannot decide which of two jobs continues" in capsys.readouterr().err


ELSEWHERE = """
import anabranch as ab
program = ab.from_iterable([1]).write_csv("s4://bucket/out")
"""


@pytest.mark.parametrize(
    "command", [["run", "--on", "sequential"], ["explain"], ["graph", "-o", "x.svg"]]
)
def test_an_output_at_a_url_is_refused_by_every_command(folder, capsys, command):
    (folder / "elsewhere.py").write_text(ELSEWHERE)

    assert 1 == main([command[0], "elsewhere.py", *command[1:]])
    assert "elsewhere.py:3: operator 'write_csv'" in capsys.readouterr().err
    assert ["elsewhere.py", "readings.csv", "sensors.py"] == sorted(
        path.name for path in folder.iterdir() if path.name != "__pycache__"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "sensors.py", "--on-error", "s3://bucket/lost.jsonl"],
        ["graph", "sensors.py", "-o", "s3://bucket/x.svg"],
        ["dashboard", "s3://bucket/run.jsonl"],
    ],
)
def test_a_url_is_refused_wherever_a_path_may_stand(folder, capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert 2 == ended.value.code
    assert "a URL with the scheme s3" in capsys.readouterr().err


def test_a_file_url_works_wherever_a_path_may_stand(folder, capsys):
    url = folder.as_uri()
    (folder / "readings.csv").write_text("sensor,value\na,2\nb,0\n")

    lost = f"{url}/lost.jsonl"
    assert 0 == sequentially(f"{url}/sensors.py:twice", "--on-error", lost)
    assert 0 == main(["graph", f"{url}/sensors.py", "-o", f"{url}/x.svg"])
    assert 1 == len((folder / "lost.jsonl").read_text().splitlines())
    assert (folder / "x.svg").exists()


def test_a_program_at_a_url_is_refused(folder, capsys):
    assert 1 == sequentially("https://example.org/job.py")
    assert "a URL with the scheme https" in capsys.readouterr().err


def test_an_error_of_ours_while_a_file_is_loaded_has_its_line_and_no_traceback(
    folder, capsys
):
    (folder / "hasty.py").write_text("import anabranch as ab\nab.latency('soon')\n")

    assert 1 == sequentially("hasty.py")
    said = capsys.readouterr().err
    assert "hasty.py:2 cannot be loaded: ArgumentError: a duration must" in said
    assert "Traceback" not in said


def test_a_full_disk_under_the_output_of_a_command_is_told(folder, capsys, monkeypatch):
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        monkeypatch.setattr(sys, "stdout", full)

        assert 1 == main(["explain", "sensors.py"])
        assert "error: " in capsys.readouterr().err


DATES = """
import datetime as dt
from typing import NamedTuple
import anabranch as ab

class Reading(NamedTuple):
    at: dt.datetime

now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
typed = ab.from_iterable([Reading(now)], Reading)
untyped = ab.from_iterable([Reading(now)]).map(lambda r: r)
program = typed.window(time=60, on="at").aggregate(len).to_list()
later = untyped.window(time=60, on="at").aggregate(len).to_list()
"""


@pytest.mark.parametrize(
    ("name", "advice"), [("program", "give it a unit"), ("later", "time='60 s'")]
)
def test_a_window_over_dates_is_refused_in_words(folder, capsys, name, advice):
    (folder / "dates.py").write_text(DATES)

    assert 1 == sequentially(f"dates.py:{name}")
    said = capsys.readouterr().err
    assert "operator 'aggregate'" in said
    assert advice in said
    assert "Traceback" not in said
