"""What is around a program is the same wherever its code runs."""

from __future__ import annotations

import decimal
import encodings.aliases
import os
import sys
import threading
import time
import urllib.parse
import warnings

import numpy as np
import pytest

from anabranch.runtime.ambient import Ambient, capture_settings


def call_in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def third():
    return str(decimal.Decimal(1) / 3)


def test_a_thread_has_the_decimals_of_who_started_the_program():
    with decimal.localcontext(decimal.Context(prec=4)):
        bound = Ambient().bind(third)

    assert "0.3333" == call_in_thread(bound)


def test_a_thread_has_the_error_state_of_numpy():
    with np.errstate(divide="raise"):
        bound = Ambient().bind(np.geterr)

    assert "raise" == call_in_thread(bound)["divide"]


def test_two_threads_have_it_at_the_same_time():
    ambient = Ambient()
    inside = threading.Barrier(2, timeout=60)
    other = threading.Thread(target=ambient.bind(inside.wait))
    other.start()

    assert call_in_thread(ambient.bind(inside.wait)) in (0, 1)
    other.join()


def in_other_process(change):
    """Return settings that `change` has made, in a process that does not have them."""
    before = capture_settings({"TZ": None, "ANABRANCH_TEST": None})
    with before.in_force():
        change()
        return capture_settings({"TZ": None, "ANABRANCH_TEST": None})


def test_settings_are_in_force_for_a_while():
    def change():
        decimal.getcontext().prec = 5
        np.seterr(over="raise")
        np.set_printoptions(precision=2)
        warnings.simplefilter("error", UnicodeWarning)
        sys.setrecursionlimit(1234)
        sys.set_int_max_str_digits(777)
        os.environ["ANABRANCH_TEST"] = "set"
        urllib.parse.uses_relative.append("mine")
        urllib.parse.uses_netloc.append("mine")
        encodings.aliases.aliases["mine"] = "latin_1"

    def look():
        limits = sys.getrecursionlimit(), sys.get_int_max_str_digits()
        return np.geterr(), np.get_printoptions(), tuple(warnings.filters), limits

    settings, before = in_other_process(change), look()

    with settings.in_force():
        assert "0.33333" == third()
        assert "raise" == np.geterr()["over"]
        assert "[0.33]" == str(np.array([1 / 3]))
        with pytest.raises(UnicodeWarning):
            warnings.warn("odd", UnicodeWarning, stacklevel=1)
        assert 1234 == sys.getrecursionlimit()
        assert 777 == sys.get_int_max_str_digits()
        assert "set" == os.environ["ANABRANCH_TEST"]
        assert "mine://a/c" == urllib.parse.urljoin("mine://a/b", "/c")
        assert "ä" == b"\xe4".decode("mine")

    assert before == look()
    assert "mine" not in {*urllib.parse.uses_relative, *encodings.aliases.aliases}
    assert "ANABRANCH_TEST" not in os.environ


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="no time zones by variable")
def test_the_time_zone_is_set_with_its_variable():
    def change():
        os.environ["TZ"] = "Asia/Tokyo"
        time.tzset()

    settings = in_other_process(change)

    with settings.in_force():
        assert ("JST", "JST") == time.tzname
    assert ("JST", "JST") != time.tzname


def test_settings_have_the_variables_that_the_program_has_changed(monkeypatch):
    monkeypatch.setenv("ANABRANCH_TEST", "set")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.9")

    found = capture_settings().variables

    assert "set" == found["ANABRANCH_TEST"]
    assert "SPARK_LOCAL_IP" not in found
