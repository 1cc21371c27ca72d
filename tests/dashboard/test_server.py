"""The server over HTTP: it tells what is in its file, to this machine, to the end."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from anabranch.dashboard.server import Server
from anabranch.errors import DashboardError
from anabranch.metrics.run_record import append

SAMPLE = {"sample": {"at_s": 1.0, "read": 5, "delivered": 4}}
END = {"end": {"status": "finished", "error": None}}


def get(address, path="", **headers):
    request = urllib.request.Request(address + path, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def news(address, after=-1):
    return json.loads(get(address, f"news?after={after}"))


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "run.jsonl"
    append(path, [{"program": {"on": "local"}}, SAMPLE])
    return path


@pytest.fixture
def address(record):
    with closing(Server()) as server:
        server.begin(record)
        yield server.address


def test_the_page_is_one_file_that_needs_nothing_from_elsewhere(address):
    page = get(address).decode()

    assert page.startswith("<!doctype html>")
    assert "https://" not in page
    assert ["page.js"] == [rest.partition('"')[0] for rest in page.split('src="')[1:]]
    assert "http:" not in page
    script = get(address, "page.js").decode()
    assert "https://" not in script
    assert {"http://www.w3.org/2000/svg"} == {
        "http:" + rest.partition('"')[0] for rest in script.split("http:")[1:]
    }


def test_the_page_runs_no_script_but_its_own(address):
    """
    Whatever a record holds, the browser runs what is in `page.js` alone.
    """
    with urllib.request.urlopen(address, timeout=30) as answer:
        page, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]

    assert "script-src 'self';" in policy
    assert '<script src="page.js"></script>' in page
    assert 1 == page.count("<script")
    assert "onclick" not in page


def test_who_lacks_the_token_is_told_nothing(address):
    host = address.rpartition("/")[0].rpartition("/")[0]
    for path in ("/", "/news", "/program", "/page.js", "/wrong/", "/wrong/program"):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get(host, path)


def test_each_server_has_a_token_of_its_own(record):
    with closing(Server()) as one, closing(Server()) as other:
        tokens = {server.address.split("/")[3] for server in (one, other)}

    assert 2 == len(tokens)
    assert all(len(token) >= 22 for token in tokens)


def test_a_page_is_told_the_program_and_the_run(address):
    shown = json.loads(get(address, "program"))
    assert {"on": "local", "can_stop": False} == shown
    assert ("running", 5) == (news(address)["status"], news(address)["now"]["read"])


def post(address, path):
    request = urllib.request.Request(address + path, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.status


def test_a_page_can_stop_the_job_that_it_shows(record):
    stopped = threading.Event()
    with closing(Server()) as server:
        server.begin(record, stop=stopped.set)

        assert json.loads(get(server.address, "program"))["can_stop"]
        assert 200 == post(server.address, "stop")
        assert stopped.wait(30)


@pytest.mark.parametrize("path", ["stop", "program", "nothing"])
def test_nothing_else_can_be_changed(address, path):
    """
    A record of an old run has nothing to stop.
    """
    with pytest.raises(urllib.error.HTTPError, match="404"):
        post(address, path)


def test_who_lacks_the_token_stops_nothing(record):
    stopped = threading.Event()
    with closing(Server()) as server:
        server.begin(record, stop=stopped.set)
        host = server.address.rpartition("/")[0].rpartition("/")[0]

        with pytest.raises(urllib.error.HTTPError, match="403"):
            post(host, "/wrong/stop")

    assert not stopped.is_set()


def test_another_run_is_there_to_compare_with(record, tmp_path):
    other = tmp_path / "other.jsonl"
    append(other, [{"program": {"on": "spark"}}, SAMPLE, END])
    with closing(Server()) as server:
        server.begin(record, other)
        shown = json.loads(get(server.address, "other"))

    assert ("spark", "finished") == (shown["program"]["on"], shown["status"])


def test_without_another_run_there_is_nothing_to_compare_with(address):
    assert json.loads(get(address, "other")) is None


def test_who_knows_everything_is_answered_when_there_is_more(address, record):
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(news, address, news(address)["lines"])
        append(record, [END])

        assert "finished" == answer.result()["status"]


def test_a_page_that_looks_is_told_the_end_before_the_server_goes(record):
    server = Server()
    server.begin(record)
    known = news(server.address)["lines"]
    with ThreadPoolExecutor(1) as pool:
        append(record, [END])
        closing_server = threading.Thread(target=server.close)
        closing_server.start()
        answer = pool.submit(news, server.address, known).result()
        closing_server.join(30)

    assert "finished" == answer["status"]
    with pytest.raises(urllib.error.URLError):
        get(server.address)


def test_another_name_for_this_machine_is_refused(address):
    """
    A page from elsewhere could let its own name point here, and read along.
    """
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(address, "program", Host="evil.example")

    refused.value.close()
    assert 403 == refused.value.code


@pytest.mark.parametrize("path", ["nothing", "../server.py", "static/index.html"])
def test_nothing_else_is_served(address, path):
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(address, path)

    refused.value.close()
    assert 404 == refused.value.code


@pytest.mark.parametrize("after", ["", "x", "-7"])
def test_a_question_that_makes_no_sense_gets_everything(address, after):
    assert 2 == news(address, after)["lines"]


def test_a_port_that_is_taken_is_an_error_with_a_way_out(address):
    port = urllib.parse.urlsplit(address).port

    with pytest.raises(DashboardError, match=f"{port} is not available.*name another"):
        Server(port)


@pytest.mark.parametrize("port", [70000, -1, "8080"])
def test_a_port_that_cannot_be_is_the_same_error(port):
    with pytest.raises(DashboardError, match=f"{port} is not available"):
        Server(port)


def raw(address, request):
    """Send bytes and return the first line of the answer."""
    parts = urllib.parse.urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as line:
        line.sendall(request)
        return line.makefile("rb").readline().decode().strip()


@pytest.mark.parametrize(
    "request_text",
    [
        "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost]\r\n\r\n",
        "GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_a_malformed_request_is_a_bad_request_and_nothing_is_printed(
    address, request_text, capfd
):
    answer = raw(address, request_text.encode())

    assert answer.startswith("HTTP/1.0 400 ")
    assert ("", "") == capfd.readouterr()


def test_a_number_too_long_to_be_a_line_is_as_good_as_none(address):
    assert "running" == json.loads(get(address, f"news?after={'9' * 5000}"))["status"]
