"""What travels to the workers, and what stays with the driver."""

import importlib
import threading

import pytest

import anabranch as ab
from anabranch.errors import EngineError

pytestmark = pytest.mark.spark


def shown(number):
    return f"{number}\n"


def test_what_runs_in_the_driver_may_hold_on_to_anything(tmp_path):
    """
    An open file can go nowhere. A helper that both sides call is left to both.
    """
    with (tmp_path / "shown").open("w") as file:

        def show(number):
            file.write(shown(number))

        texts = ab.from_iterable([1, 2], int).map(lambda n: "" + shown(n), type=str)
        longest = texts.map(len).to_list()
        ab.run(texts.map(int).for_each(show), texts.for_each(shown), longest)

    assert "1\n2\n" == (tmp_path / "shown").read_text()
    assert [2, 2] == longest.items


def test_an_operator_that_cannot_travel_is_named():
    lock = threading.Lock()

    @ab.declare(state="stateless", push=(1, 1))
    def locked(number):
        with lock:
            return number

    sink = ab.from_iterable([1], int).map(locked, name="careful").to_list()

    with pytest.raises(EngineError, match=r"test_ship.py:\d+: careful must be able to"):
        ab.run(sink)


def test_a_module_runs_a_program_while_it_is_being_imported(tmp_path, monkeypatch):
    (tmp_path / "runs_at_import.py").write_text(
        "import anabranch as ab\n"
        "class Own:\n"
        "    def __init__(self, n):\n"
        "        self.n = n\n"
        "def wrap(n):\n"
        "    return Own(n + 1)\n"
        "out = ab.from_iterable([1, 2], int).map(wrap).to_list()\n"
        "job = ab.start(out, on='spark')\n"
        "ended = job.wait(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    module = importlib.import_module("runs_at_import")

    assert module.ended
    assert [2, 3] == [one.n for one in module.out.items]
    assert {module.Own} == {type(one) for one in module.out.items}
