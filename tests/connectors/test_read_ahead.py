"""Reading a connection ahead: when bytes arrived, how many wait, and how it ends."""

import socket
import time

import pytest

from anabranch.connectors.socket import ReadAhead


def until(reached):
    while not reached():
        time.sleep(0.001)


@pytest.fixture
def pair():
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def test_rows_are_counted_before_anybody_takes_them(pair):
    here, there = pair
    ahead = ReadAhead(here)

    there.sendall(b"1\n2\n3")

    until(lambda: ahead.rows == 2)
    assert b"1\n2\n3" == ahead.take().data
    assert 0 == ahead.rows
    ahead.close()


def test_a_block_keeps_the_time_of_its_arrival(pair):
    here, there = pair
    ahead = ReadAhead(here)
    there.sendall(b"1\n")
    until(lambda: ahead.rows)
    arrived_s = time.time()

    time.sleep(0.01)

    assert ahead.take().at_s <= arrived_s
    ahead.close()


def test_nothing_comes_where_nothing_has_arrived(pair):
    ahead = ReadAhead(pair[0])

    assert ahead.take() is None
    ahead.close()


def test_no_more_is_kept_than_the_bound_and_nothing_is_lost(pair):
    here, there = pair
    ahead = ReadAhead(here, most_bytes=4)
    there.sendall(b"1\n2\n")
    until(lambda: ahead.rows == 2)
    there.sendall(b"3\n")

    ahead.wait(1.0)
    first = ahead.take().data
    ahead.wait(5.0)

    assert b"1\n2\n" == first
    assert b"3\n" == ahead.take().data
    ahead.close()


def test_the_end_is_an_empty_block(pair):
    here, there = pair
    ahead = ReadAhead(here)
    there.close()

    ahead.wait(5.0)

    assert b"" == ahead.take().data
    ahead.close()
