"""The page in a real browser: what a reader sees of a run."""

from __future__ import annotations

import re
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

import anabranch as ab
from anabranch.dashboard.server import Server
from anabranch.errors import OperatorError
from anabranch.job import compile_sinks, program_data
from anabranch.metrics.job_metrics import EpochTrace
from anabranch.metrics.run_record import append, epoch_line
from anabranch.run_options import RunOptions
from tests import needs

SAMPLES = [
    {
        "at_s": float(second),
        "read": 1000 * second,
        "delivered": 900 * second,
        "items": 900,
        "p50_ms": 3.0,
        "p99_ms": 41.5,
        "backlog": 10 * second,
        "degrees": {"r0": 1 + second // 10},
        "ports": ["total[0]"],
        "waiting": {"total": 123},
        "items_of": {"from_iterable": 1000 * second},
        "failed": {"total": 7},
        "load": {
            "total": {
                "element": "total",
                "replicas": 1,
                "skew": 1.0,
                "busy": 0.97,
                "items": 1000 * second,
                "per_s": 1000,
                "waiting": 123,
                "full": 0.5,
            }
        },
    }
    for second in range(30)
]
CHANGE = {
    "place": 0,
    "at_s": 10.0,
    "what": "r0 has 2 replicas",
    "why": "it is <the> bottleneck",
    "effect": "1.80x \N{PLUS-MINUS SIGN}0.05",
}


@pytest.fixture
def browser(pytestconfig):
    found = needs.find_browser()
    if found is None:
        needs.leave_out(pytestconfig, needs.BROWSER)
    return found


def look_at(browser, address):
    return subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu"),
            *("--window-size=1280,1600", "--virtual-time-budget=4000", "--dump-dom"),
            address,
        ],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    ).stdout


def test_a_reader_sees_the_whole_run(browser, tmp_path):
    total = 0

    def add(number):
        nonlocal total
        total += number
        return total

    numbers = ab.from_iterable([1, 2]).map(abs)
    sinks = [numbers.map(add, name="total").to_list()]
    record = tmp_path / "run.jsonl"
    made = compile_sinks(*sinks, on="local")
    program = program_data(made, RunOptions(on="local", goal=ab.latency("60 ms")))
    end = {"status": "failed", "error": "OperatorError: 'total' <b>failed</b>"}
    append(
        record,
        [
            {"program": program},
            *({"sample": sample} for sample in SAMPLES),
            {"change": CHANGE},
            {"failures": ["operator 'total' failed on item 3"]},
            {"end": end},
        ],
    )

    with closing(Server()) as server:
        server.begin(record)
        page = look_at(browser, server.address)

    body = page.partition("<script")[0]
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))
    assert 'id="status" class="failed"' in body
    for shown in (
        "test_page.py",
        "1 of 4 operators run in parallel · goal: 99% within 60 ms",
        "OperatorError: 'total' &lt;b&gt;failed&lt;/b&gt;",
        "29,000 items",
        "1k items / s",
        "41.5 ms",
        "r0 has 2 replicas it is &lt;the&gt; bottleneck 1.80x ±0.05",
        "\N{MULTIPLICATION SIGN} 3",  # replicas now, on the drawing
        "123 waiting",
        "its own thread begins at total",
        "7 items left out",
        "from_iterable sequential 29,000",
        "total sequential 29,000 (7 failed)",
        "97%",  # of the time at work
        "123 (50% full)",  # backpressure
        "Failed items",
        "operator 'total' failed on item 3",
    ):
        assert shown in words, shown
    legend = re.findall(r'<span data-[^>]*?( hidden="")?><i[^>]*></i>([^<]*)', body)
    assert {"state per key"} == {words for hidden, words in legend if hidden}
    (why,) = [one.why for one in made.plan.sequential if one.operator == "total"]
    assert f'<td class="what">total</td><td class="">{why}</td>' in body
    assert 4 == body.count('<div class="plot"><svg')


def test_a_page_that_is_open_keeps_the_end_of_a_job(browser, tmp_path, monkeypatch):
    """
    The job goes on when the page has begun to ask; then both server and job are gone.
    """
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    asked = threading.Event()
    monkeypatch.setattr(Server, "news", noticed(Server.news, asked))

    def numbers():
        yield 4
        asked.wait()
        yield 0

    inverse = ab.generate(numbers).map(lambda n: 1 / n).to_list()
    job = ab.start(inverse, on="local", ui=True)
    with ThreadPoolExecutor(1) as pool:
        page = pool.submit(look_at, browser, job.ui.address)
        page.add_done_callback(lambda _: asked.set())  # also if there is no page
        with pytest.raises(OperatorError):
            job.wait()
        body = page.result().partition("<script")[0]

    assert 'id="status" class="failed"' in body
    assert "ZeroDivisionError" in body


def write_run(path, program, seconds, status="finished", **more):
    """Write the record of a run with a hundred items a second."""
    samples = [
        {"sample": {"at_s": float(s), "read": 100 * s, "delivered": 50 * s, **more}}
        for s in range(seconds + 1)
    ]
    end = {"end": {"status": status, "error": None}}
    append(path, [{"program": program}, *samples, end])


def test_a_reader_compares_two_runs(browser, tmp_path):
    made = compile_sinks(ab.from_iterable([1]).map(abs).to_list(), on="local")
    program = program_data(made, RunOptions(on="local"))
    write_run(tmp_path / "now.jsonl", program, 10)
    write_run(tmp_path / "before.jsonl", program, 20)

    with closing(Server()) as server:
        server.begin(tmp_path / "now.jsonl", tmp_path / "before.jsonl")
        page = look_at(browser, server.address)

    words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))
    assert "duration, s 10 20 0.5\N{MULTIPLICATION SIGN}" in words
    assert "read, items 1,000 2,000 0.5\N{MULTIPLICATION SIGN}" in words
    assert "read, other run" in words


def test_a_reader_sees_the_epochs_and_their_phases(browser, tmp_path):
    made = compile_sinks(ab.from_iterable([1]).map(abs).to_list())
    program = program_data(made, RunOptions(on="spark", checkpoint="state"))
    record = tmp_path / "run.jsonl"
    write_run(record, program, 4, epochs=1)
    trace = EpochTrace(1, program["started"] + 1, (("run", 1.5), ("commit", 0.5)), 400)
    append(record, [epoch_line(trace)])

    with closing(Server()) as server:
        server.begin(record)
        page = look_at(browser, server.address)

    assert "epoch 1: 400 items; run tasks 1.5 s, commit 500 ms" in page
    assert "the newest took 2 s for 400 items; each one is saved in state" in page


def noticed(function, event):
    def instead(*arguments):
        event.set()
        return function(*arguments)

    return instead
