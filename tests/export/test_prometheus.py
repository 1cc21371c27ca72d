"""What Prometheus reads of a job: the text, the endpoint, and a real server's answers."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

import anabranch as ab
from anabranch.errors import ArgumentError
from anabranch.export.families import Distribution, Family, Reading
from anabranch.export.prometheus import write_text
from tests import needs
from tests.export.test_families import expressions


def fetch(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert (
            "text/plain; version=0.0.4; charset=utf-8" == answer.headers["Content-Type"]
        )
        return answer.read().decode()


class Paced:
    """A program that gives items for as long as it is let."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def items(self):
        number = 0
        while not self.over.wait(0.002):
            yield number
            number += 1


@pytest.fixture
def paced():
    made = Paced()
    yield made
    made.over.set()


def test_names_and_labels_are_written_as_prometheus_reads_them():
    family = Family(
        "anabranch.items.read",
        "counter",
        "Items\nthat \\ sources gave",
        (Reading(3, {"source": 'a"b\\c\nd'}),),
    )

    assert (
        "# HELP anabranch_items_read_total Items\\nthat \\\\ sources gave\n"
        "# TYPE anabranch_items_read_total counter\n"
        'anabranch_items_read_total{source="a\\"b\\\\c\\nd"} 3\n'
    ) == write_text([family])


def test_a_histogram_counts_what_is_at_or_below_each_bound():
    counts = (1, 0, 2, *[0] * 18, 4)
    family = Family(
        "anabranch.latency",
        "histogram",
        "Age",
        (Reading(Distribution(counts, 0.5)),),
        "s",
    )

    lines = write_text([family]).splitlines()

    assert "# TYPE anabranch_latency_seconds histogram" == lines[1]
    assert 'anabranch_latency_seconds_bucket{le="0.0001"} 1' == lines[2]
    assert 'anabranch_latency_seconds_bucket{le="0.00025"} 1' == lines[3]
    assert 'anabranch_latency_seconds_bucket{le="0.0005"} 3' == lines[4]
    assert 'anabranch_latency_seconds_bucket{le="+Inf"} 7' == lines[-3]
    assert "anabranch_latency_seconds_sum 0.5" == lines[-2]
    assert "anabranch_latency_seconds_count 7" == lines[-1]


def test_a_running_job_serves_its_metrics_and_its_end_takes_the_endpoint_away(paced):
    out = ab.generate(paced.items).map(abs).to_list()
    job = ab.start(out, on="local", metrics="prometheus://127.0.0.1:0")
    address = job.exporter.address
    try:
        first = fetch(address)
        while not job.metrics().delivered["to_list"]:
            time.sleep(0.01)
        later = fetch(address)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(address.removesuffix("metrics"))
    finally:
        paced.over.set()
        job.wait()

    assert 'anabranch_job_status{engine="local",status="running"} 1\n' in first
    delivered = 'anabranch_items_delivered_total{sink="to_list"} '
    assert 0 < int(later.partition(delivered)[2].partition("\n")[0]) <= len(out.items)
    with pytest.raises((urllib.error.URLError, http.client.HTTPException)):
        fetch(address)


@pytest.mark.parametrize(
    ("target", "why"),
    {
        "another system": ("statsd://host:8125", "it begins with 'statsd'"),
        "no port": ("prometheus://host", "it has no port"),
        "no host": ("otlp://:4317", "it has no host"),
        "a path": ("otlp://host:4317/v1", "more than a host and a port"),
        "a port that is none": ("prometheus://:99999", "Port out of range"),
        "no text": (9464, "it is no text"),
    }.values(),
)
def test_a_place_where_metrics_cannot_go(target, why):
    with pytest.raises(ArgumentError, match=why):
        ab.run(ab.from_iterable([1]).to_list(), on="sequential", metrics=target)


def test_a_port_that_is_taken_is_refused_before_anything_runs():
    ran = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ArgumentError, match=f"127.0.0.1:{port} is not available"):
            ab.run(
                ab.from_iterable([1]).for_each(ran.append),
                on="sequential",
                metrics=f"prometheus://127.0.0.1:{port}",
            )

    assert [] == ran


def test_items_that_were_left_out_are_counted_by_operator():
    out = ab.from_iterable([2, 0, 1, 0]).map(lambda n: 2 // n, name="ratio").to_list()

    job = ab.run(out, on="local", on_error="skip")

    assert [1, 2] == out.items
    assert {"ratio": 2} == job.metrics().failed


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Server:
    """A Prometheus that scrapes one job."""

    def __init__(self, program: str, folder, scraped: str) -> None:
        self.port = find_free_port()
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
            "scrape_configs:\n"
            "  - job_name: anabranch\n"
            f"    static_configs: [{{targets: ['{scraped}']}}]\n"
        )
        self.process = subprocess.Popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, expression: str) -> list[dict]:
        """Return what a query finds now."""
        query = urllib.parse.urlencode({"query": expression})
        address = f"http://127.0.0.1:{self.port}/api/v1/query?{query}"
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is starting
                return []
            pytest.fail(f"{expression}: {error.read()!r}")
        except (urllib.error.URLError, ConnectionError):
            return []

    def await_result(self, expression: str) -> list[dict]:
        """Return what a query finds as soon as it finds something."""
        for _ in range(600):
            assert self.process.poll() is None
            if found := self.ask(expression):
                return found
            time.sleep(0.1)
        pytest.fail(f"nothing found by {expression}")


# What the dashboard draws that a job on the local engine does not have.
NOT_LOCAL = ("anabranch_epoch", "anabranch_cut", "anabranch_items_failed")


def test_a_real_prometheus_reads_all_that_the_dashboard_draws(tmp_path, pytestconfig):
    program = shutil.which("prometheus")
    if program is None:
        needs.leave_out(pytestconfig, needs.PROMETHEUS)
    load = ab.testing.steps((200, 120.0))
    out = ab.testing.offered(load).map(abs).filter(bool).to_list()
    job = ab.start(out, on="local", metrics="prometheus://127.0.0.1:0")
    job._running.insert_port("filter")
    host = job.exporter.address.removeprefix("http://").removesuffix("/metrics")
    server = Server(program, tmp_path, host)
    try:
        server.await_result('anabranch_items_delivered_total{sink="to_list"} > 0')
        for expression in expressions():
            asked = expression.replace("$__rate_interval", "30s")
            asked = asked.replace("$instance", ".*")
            if not any(name in asked for name in NOT_LOCAL):
                server.await_result(asked)
            else:
                server.ask(asked)  # it is a query at least
        (status,) = server.ask("anabranch_job_status == 1")
        assert "running" == status["metric"]["status"]
    finally:
        server.process.terminate()
        server.process.wait()
        job.stop()
