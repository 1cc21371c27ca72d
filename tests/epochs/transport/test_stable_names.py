"""A checkpoint names nothing of ours by its module."""

from __future__ import annotations

import enum
import pickle
import pickletools
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch import errors
from anabranch.epochs.transport.pickle import PickledNames, Pickler
from anabranch.epochs.transport.stable_names import MODULE, OBJECTS
from anabranch.errors import CheckpointError
from anabranch.graph.site import Site
from anabranch.language.drafts import build_graph
from anabranch.operators.windows import row_type
from anabranch.runtime.failures import Failure


class Trade(NamedTuple):
    symbol: str


class Side(enum.Enum):
    BUY = 1


class Last(ab.Operator):
    def __init__(self):
        self.trade = Trade("A")


class BadTradeError(Exception):
    def __init__(self, trade):
        super().__init__(f"bad: {trade}")


def failure(error):
    return Failure("map", Site("job.py", 3), Trade("A"), "item 1", error)


def pickler(*, lasting=True):
    graph = build_graph([ab.from_iterable([], Trade).apply(Last).to_list()])
    return Pickler(graph, PickledNames({"job:Side": Side}), lasting=lasting)


def modules_in(data):
    """Return the modules that a pickle names, read from its opcodes."""
    texts: list[object] = []
    memo: list[object] = []
    found = set()
    for code, argument, _ in pickletools.genops(data):
        if code.name in ("SHORT_BINUNICODE", "BINUNICODE"):
            texts.append(argument)
        elif code.name == "MEMOIZE":
            memo.append(texts[-1] if texts else None)
        elif code.name in ("BINGET", "LONG_BINGET"):
            texts.append(memo[argument])
        elif code.name == "STACK_GLOBAL":
            found.add(texts[-2])
    return found


STATES = {
    "a tuple of the program": Trade("A"),
    "an operator of the program": Last(),
    "a member of an enum of a script": Side.BUY,
    "a row of an aggregate": row_type(("total", "n"))(7, 2),
    "a failure": failure(ValueError("no")),
    "a failure with an error of ours": failure(errors.InputError("row 3")),
    "a failure with an error of the user's": failure(BadTradeError(Trade("A"))),
    "all errors of ours": [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and value.__module__ == errors.__name__
    ],
    "a class that was made in a function": type("Local", (ab.Operator,), {}),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_state_names_no_module_of_ours(state):
    data = pickler().dumps_state(state)

    ours = {name for name in modules_in(data) if str(name).startswith("anabranch")}
    assert ours <= {MODULE}
    assert type(state) is type(pickler().loads(data)) or "Row" == type(state).__name__


@pytest.mark.parametrize(
    "state",
    [Pickler, ab.Window(count=3), ab.run],
    ids=["class", "object", "f"],
)
def test_what_only_this_release_finds_is_refused(state):
    with pytest.raises(CheckpointError, match=r"a state holds anabranch\.\S+, which"):
        pickler().dumps_state([state])


def test_without_a_checkpoint_a_state_may_hold_anything():
    kept = pickler(lasting=False)

    assert Pickler is kept.loads(kept.dumps_state(Pickler))


def test_what_travels_to_workers_may_hold_anything():
    assert Pickler is pickler().loads(pickler().dumps(Pickler))


def old(module, name):
    """Return the opcode for a global of ours as formats 2 and 3 have it."""
    return f"canabranch.{module}\n{name}\n".encode()


PICKLING = "engines.spark.pickling"
OLD = {
    "failure": (old("runtime.failures", "Failure"), Failure),
    "site": (old("graph.site", "Site"), Site),
    "operator": (old("graph.custom", "Operator"), ab.Operator),
    "error": (old("errors", "LateItemError"), errors.LateItemError),
    "row": (old("graph.windows", "_row"), OBJECTS["row"]),
    "class by number": (old(PICKLING, "_class_numbered") + b"(I0\ntR", Trade),
    "member": (
        old(PICKLING, "_member_of")
        + b"("
        + old(PICKLING, "_named")
        + b"(Vjob:Side\ntRVBUY\ntR",
        Side.BUY,
    ),
}


@pytest.mark.parametrize(("data", "meant"), OLD.values(), ids=OLD)
def test_names_of_older_formats_are_understood(data, meant):
    assert meant is pickler().loads(data + b".")


def test_only_the_pickler_of_a_program_reads_its_states():
    data = pickler().dumps_state(Trade("A"))

    with pytest.raises(pickle.UnpicklingError, match="pickler of its program"):
        pickle.loads(data)
