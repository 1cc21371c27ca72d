"""Sockets as sources and as sinks, against servers of the test's own."""

import socket
import struct
import time
from contextlib import contextmanager

import pytest

import anabranch as ab
from anabranch.errors import InputError, OutputError
from tests.connectors.items import Reading, as_json, readings, total, totals
from tests.waiting import until


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(120)
        yield listening


@contextmanager
def called(server):
    """Wait for a call and take it."""
    connection, _ = server.accept()
    with connection:
        yield connection


def broken_off(connection):
    """Have the connection reset instead of closed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def everything(connection) -> bytes:
    data = b""
    while block := connection.recv(1 << 16):
        data += block
    return data


def test_lines_go_through_a_program_and_out_again(engine, server):
    items = readings(300)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sums = ab.socket(*server.getsockname(), Reading).key_by("sensor")
        sink = sums.scan(total, 0).to_socket(*listening.getsockname(), format="csv")
        job = ab.start(sink, on=engine, epoch_items=100)
        with called(listening) as out:
            with called(server) as connection:
                for line in as_json(items):
                    connection.sendall(line + b"\n")
            job.wait()
            data = everything(out)

    expected = "".join(f"{sensor},{total}\n" for sensor, total in totals(items))
    assert expected == data.decode()
    assert "finished" == job.status


def test_the_end_of_the_connection_is_the_end_of_the_stream(engine, server):
    """
    What stands behind the last line end is a row too, as in a file.
    """
    out = ab.socket(*server.getsockname()).to_list()
    job = ab.start(out, on=engine)
    with called(server) as connection:
        connection.sendall(b"one\ntw")
        connection.sendall(b"o\n\nthree")
    job.wait()

    assert ("finished", ["one", "two", "", "three"]) == (job.status, out.items)


def test_a_row_may_come_in_several_pieces(server):
    out = ab.socket(*server.getsockname(), Reading, format="csv").to_list()
    job = ab.start(out, on="sequential")
    with called(server) as connection:
        for piece in (b'"a', b'\n","', b'1"\n', b"b,2\n"):
            connection.sendall(piece)
    job.wait()

    assert [Reading("a\n", 1), Reading("b", 2)] == out.items


def test_a_bad_line_is_a_dead_letter_and_its_neighbours_stay(engine, server):
    lost = []
    out = ab.socket(*server.getsockname(), int).to_list()
    job = ab.start(out, on=engine, on_error=ab.dead_letter(lost.append))
    with called(server) as connection:
        connection.sendall(b"1\nx\n3\n")
    job.wait()

    assert [1, 3] == out.items
    host, port = server.getsockname()
    assert [f"line 2 from {host}:{port}"] == [failure.where for failure in lost]


def test_a_bad_line_stops_the_job_unless_told_otherwise(engine, server):
    job = ab.start(ab.socket(*server.getsockname(), int).to_list(), on=engine)
    with called(server) as connection:
        connection.sendall(b"1\nx\n3\n")

    with pytest.raises(InputError, match=r"line 2 from .*: must be JSON"):
        job.wait()


@pytest.mark.parametrize(
    "engine", ["sequential", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_a_connection_that_breaks_off_is_told(engine, server):
    out = ab.socket(*server.getsockname(), int).to_list()
    job = ab.start(out, on=engine)
    with called(server) as connection:
        connection.sendall(b"1\n2\n")
        until(job, lambda: len(out.items) == 2)
        broken_off(connection)

    with pytest.raises(InputError, match="broke off after row 2"):
        job.wait()
    assert [1, 2] == out.items


@pytest.mark.parametrize("ends", ["closed", "reset"])
def test_with_reconnect_the_stream_goes_on_without_the_row_that_was_cut_off(
    engine, server, ends
):
    lost = []
    out = ab.socket(*server.getsockname(), reconnect=True).to_list()
    job = ab.start(out, on=engine, on_error=ab.dead_letter(lost.append))
    with called(server) as connection:
        connection.sendall(b"one\n")
        until(job, lambda: out.items == ["one"])
        if ends == "reset":
            broken_off(connection)
        else:
            connection.sendall(b"cut of")
    with called(server) as connection:
        connection.sendall(b"two\n")
        until(job, lambda: len(out.items) == 2)
        job.stop()

    assert ("stopped", ["one", "two"]) == (job.status, out.items)
    expected = ["cut of"] if ends == "closed" else []
    assert expected == [failure.item for failure in lost]


def test_a_server_that_is_not_there_is_told(engine):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        place = gone.getsockname()

    with pytest.raises(InputError, match="must find a server"):
        ab.run(ab.socket(*place).to_list(), on=engine)
    with pytest.raises(OutputError, match="must find a server"):
        ab.run(ab.from_iterable([1]).to_socket(*place), on=engine)


def test_with_reconnect_a_server_may_come_later(server):
    place = server.getsockname()
    server.close()
    out = ab.socket(*place, reconnect=True).to_list()
    job = ab.start(out, on="sequential")
    with socket.create_server(place) as later, called(later) as connection:
        connection.sendall(b"at last\n")
        until(job, lambda: bool(out.items))
        job.stop()

    assert ["at last"] == out.items


def test_a_listener_that_hangs_up_is_told(server):
    endless = ab.generate(lambda: iter(lambda: "x" * 1000, None), str)
    job = ab.start(
        endless.to_socket(*server.getsockname(), format="text"), on="sequential"
    )
    with called(server) as connection:
        connection.recv(1)

    with pytest.raises(OutputError, match="must be heard to the end"):
        job.wait()


def test_an_item_that_cannot_be_sent_does_no_harm_to_the_others(engine, server):
    lost = []
    sink = ab.from_iterable([1, {2}, 3]).to_socket(*server.getsockname())
    job = ab.start(sink, on=engine, on_error=ab.dead_letter(lost.append))
    with called(server) as connection:
        job.wait()
        data = everything(connection)

    assert b"1\n3\n" == data
    assert [{2}] == [failure.item for failure in lost]


@pytest.mark.spark
def test_an_epoch_takes_no_more_than_it_is_allowed(server):
    """
    The knob can be turned while the job runs.
    """
    out = ab.socket(*server.getsockname(), int).to_list()
    job = ab.start(out, on="spark", epoch_items=10)
    run = job._running
    with called(server) as connection:
        connection.sendall(b"".join(b"%d\n" % n for n in range(25)))
        until(job, lambda: len(out.items) == 25)
        before = job.metrics().epochs
        run.epoch_items = 1000
        connection.sendall(b"".join(b"%d\n" % n for n in range(25, 200)))
        until(job, lambda: len(out.items) == 200)
        after = job.metrics().epochs
    job.wait()

    assert list(range(200)) == out.items
    assert before >= 3
    assert after - before < 175 // 10


def test_sources_that_arrive_do_not_wait_for_each_other(engine, server):
    silent = server
    with socket.create_server(("127.0.0.1", 0)) as lively:
        streams = [ab.socket(*s.getsockname()) for s in (silent, lively)]
        out = ab.union(*streams).to_list()
        job = ab.start(out, on=engine)
        with called(silent) as quiet, called(lively) as loud:
            loud.sendall(b"a\nb\n")
            until(job, lambda: len(out.items) == 2)
            quiet.sendall(b"c\n")
            until(job, lambda: len(out.items) == 3)
        job.wait()

    assert ["a", "b", "c"] == out.items


def test_latency_counts_from_when_a_row_arrived(engine, server):
    """Twenty rows arrive together; the operator takes 5 ms or more for each."""

    def slow(n: int) -> int:
        time.sleep(0.005)
        return n

    rows = ab.socket(*server.getsockname(), int)
    out = rows.map(slow).to_list()
    job = ab.start(out, on=engine, degree=1, epoch_items=5)
    with called(server) as connection:
        connection.sendall(b"".join(b"%d\n" % n for n in range(20)))
    job.wait()

    metrics = job.metrics()
    if engine != "sequential":
        assert 20 == metrics.latency.items == metrics.latency_from_reading.items
        assert metrics.latency.max_ms > 90
        assert metrics.recent_latency.items == 20
        assert 0 == metrics.backlog
    assert list(range(20)) == out.items
