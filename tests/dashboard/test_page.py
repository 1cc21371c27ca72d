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
from anabranch.metrics.run_record import append
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
        "1 of 4 operators parallel · goal: 99% within 60 ms",
        "OperatorError: 'total' &lt;b&gt;failed&lt;/b&gt;",
        "29,000 items",
        "1k items / s",
        "41.5 ms",
        "r0 has 2 replicas it is &lt;the&gt; bottleneck 1.80x ±0.05",
        "\N{MULTIPLICATION SIGN} 3",  # replicas now, on the drawing
        "123 waiting",
        "a thread of its own begins at total",
        "7 items failed",
        "from_iterable sequential none Python",
        "29,000",
        "total sequential one for all items Python",
        "(7 left out)",
    ):
        assert shown in words, shown
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


def noticed(function, event):
    def instead(*arguments):
        event.set()
        return function(*arguments)

    return instead
