"""What happens to an item that fails: stop, skip, dead letter."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import (
    ArgumentError,
    CheckpointError,
    EngineError,
    InputError,
    LateItemError,
    OperatorError,
    OutputError,
)
from anabranch.graph.graph import Op
from anabranch.graph.site import Site
from anabranch.operators.stateless import Map
from anabranch.runtime.failures import (
    Failure,
    failure_at_end,
    failure_of,
    policy,
    skip,
    stop,
)


class Tick(NamedTuple):
    ts: int
    k: str = "a"


def inverse(n):
    return 12 // n


def run(stream, on_error):
    sink = stream.to_list()
    ab.run(sink, on="sequential", on_error=on_error)
    return sink.items


def lost(stream):
    """Return the outputs of a stream and the items that were lost on the way."""
    failures = []
    return run(stream, ab.dead_letter(failures.append)), [f.item for f in failures]


def test_stop_names_the_operator_the_item_its_place_and_the_line():
    stream = ab.from_iterable([3, 0], name="numbers").map(inverse, name="inverse")

    with pytest.raises(OperatorError) as caught:
        run(stream, "stop")

    text = str(caught.value)
    assert "operator 'inverse' (" in text
    assert "test_failures.py:" in text
    assert "failed on item 2 of numbers: 0: ZeroDivisionError" in text
    assert "(raised at" in text
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_skip_goes_on_without_the_item():
    assert [4, 6] == run(ab.from_iterable([3, 0, 2]).map(inverse), "skip")


def test_dead_letters_hold_operator_item_place_and_error():
    failures = []
    stream = ab.from_iterable([3, 0], name="numbers").map(inverse, name="inverse")

    assert [4] == run(stream, ab.dead_letter(failures.append))
    (failure,) = failures
    assert ("inverse", 0) == (failure.operator, failure.item)
    assert "item 2 of numbers" == failure.where
    assert isinstance(failure.error, ZeroDivisionError)


def test_dead_letters_can_be_lines_of_json(tmp_path):
    path = tmp_path / "lost.jsonl"
    run(ab.from_iterable([0, 0]).map(inverse), ab.dead_letter(str(path)))

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert ["map", "map"] == [line["operator"] for line in lines]
    assert ["0", "0"] == [line["item"] for line in lines]
    assert "ZeroDivisionError" in lines[0]["error"]


def half_way(n):
    yield n
    if n == 2:
        raise ValueError(n)
    yield -n


class Fussy(ab.Operator):
    """Counts every item it meets, then refuses those below zero."""

    def setup(self):
        self.n = 0

    def process(self, item):
        self.n += 1
        if item < 0:
            raise ValueError(item)
        yield self.n


def refuse_two(items):
    if 2 in items:
        raise ValueError(items)
    return list(items)


LOST = {
    "a flat_map counts wholly or not at all": (
        lambda: ab.from_iterable([1, 2, 3]).flat_map(half_way),
        [1, -1, 3, -3],
        [2],
    ),
    "what an Operator had changed stays changed": (
        lambda: ab.from_iterable([5, -1, 5]).apply(Fussy),
        [1, 3],
        [-1],
    ),
    "an item without the key is refused": (
        lambda: ab.from_iterable([Tick(1), "x", Tick(2)])
        .key_by("k")
        .scan(lambda n, t: (n + 1, n), 0),
        [0, 1],
        ["x"],
    ),
    "an item whose key is no key is refused": (
        lambda: ab.from_iterable([Tick(1, 0.5), Tick(1, float("nan"))])
        .key_by("k")
        .scan(lambda n, t: (n + 1, t.k), 0),
        [0.5],
        [Tick(1, float("nan"))],
    ),
    "a late item is refused": (
        lambda: ab.from_iterable([Tick(1), Tick(25), Tick(2)])
        .window(time=10, on="ts")
        .aggregate(len),
        [1, 1],
        [Tick(2)],
    ),
    "a window that fails is lost whole, to the item that closed it": (
        lambda: ab.from_iterable([1, 2, 3, 4]).window(count=2).aggregate(refuse_two),
        [[3, 4]],
        [2],
    ),
    "a block that fails loses what it popped": (
        lambda: ab.from_iterable([1, 2, 3, 4]).block(
            lambda w: [refuse_two(w)], pop=2, push=1
        ),
        [[3, 4]],
        [2],
    ),
    "a barrier that fails loses its set": (
        lambda: ab.barrier(
            ab.from_iterable([1, 0, 2]), ab.from_iterable([2, 2, 2]), into=lambda a, b: b // a
        ),
        [2, 1],
        [2],
    ),
    "a merge refuses what has no such attribute": (
        lambda: ab.merge(ab.from_iterable([Tick(1), "x"]), ab.from_iterable([Tick(2)]), by="ts"),
        [Tick(1), Tick(2)],
        ["x"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("stream", "kept", "refused"), LOST.values(), ids=LOST)
def test_what_is_lost_and_what_goes_on(stream, kept, refused):
    outputs, items = lost(stream())

    assert kept == outputs
    assert repr(refused) == repr(items)


def test_a_failure_on_one_branch_does_not_touch_the_others():
    s = ab.from_iterable([0, 3])

    assert [0, 4, 3] == run(ab.union(s.map(inverse), s.map(abs)), "skip")


def test_a_failure_at_the_end_is_reported_and_the_rest_finishes():
    failures = []
    s = ab.from_iterable([Tick(1, "b"), Tick(2, "a"), Tick(3, "c")]).key_by("k")
    names = s.window(count=9).aggregate(lambda w: w[0].k + str(1 // (w[0].ts - 1)))

    assert ["a1", "c0"] == run(names, ab.dead_letter(failures.append))
    assert ["the end of the stream"] == [failure.where for failure in failures]


def test_a_sink_that_fails_is_an_operator_that_fails():
    with pytest.raises(OperatorError, match=r"'out' .*ZeroDivisionError"):
        ab.run(ab.from_iterable([0]).for_each(inverse, name="out"), on="sequential")


def test_a_failure_inside_rounds_loses_the_window():
    s = ab.from_iterable([1, 0, 7]).punctuate(lambda n: n == 0)
    inverses = s.iterate(lambda body: body.map(inverse), rounds=1)

    assert [1] == run(inverses, "skip")


def test_the_kind_of_an_error_of_ours_is_kept():
    late = ab.from_iterable([Tick(25), Tick(2)]).window(time=10, on="ts").aggregate(len)

    with pytest.raises(LateItemError, match="times must not fall behind"):
        run(late, "stop")


def test_an_error_of_a_source_is_raised_as_it_is():
    error = InputError("trades.csv, row 3: volume must be an int; got 'x'")
    failure = Failure("read", Site("job.py", 1), "x", "row 3", error)

    with pytest.raises(InputError) as caught:
        stop(failure)

    assert error is caught.value


def test_policies_by_name():
    assert (stop, skip, print) == (policy("stop"), policy("skip"), policy(print))


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="'stop', 'skip' or"):
        policy("ignore")


def test_dead_letters_go_to_a_file_url_and_to_a_path(tmp_path):
    for target in (tmp_path / "one.jsonl", (tmp_path / "two.jsonl").as_uri()):
        run(ab.from_iterable([0]).map(inverse), ab.dead_letter(target))

    assert 1 == len((tmp_path / "one.jsonl").read_text().splitlines())
    assert 1 == len((tmp_path / "two.jsonl").read_text().splitlines())


@pytest.mark.parametrize("target", ["s3://bucket/lost.jsonl", "hdfs:x", "", None, 3])
def test_dead_letters_that_can_go_nowhere_are_refused_at_once(target):
    with pytest.raises(ArgumentError, match="a function or to a file of this machine"):
        ab.dead_letter(target)


@pytest.mark.parametrize("where", ["no/such/folder/lost.jsonl", "."])
def test_a_file_of_dead_letters_that_cannot_be_written_is_named(tmp_path, where):
    path = tmp_path / where
    stream = ab.from_iterable([3, 0]).map(inverse, name="inverse")

    with pytest.raises(OutputError) as caught:
        run(stream, ab.dead_letter(path))

    assert f"dead letters {path} must be writable" in str(caught.value)
    assert "'inverse' failed on item 2" in str(caught.value)


def test_a_policy_that_does_not_exist_is_one_of_our_errors():
    with pytest.raises(ArgumentError, match="got 'ignore'"):
        policy("ignore")


class Unfinished(ab.Operator):
    def process(self, item):
        return []

    def finish(self):
        msg = "not yet"
        raise ValueError(msg)


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_an_operator_that_fails_at_the_end_names_the_key_and_no_item(on):
    failures = []
    s = ab.from_iterable([Tick(1, "b"), Tick(2, "a")])
    sinks = [
        s.key_by("k").apply(Unfinished, name="keyed"),
        s.apply(Unfinished, name="single"),
    ]

    ab.run(
        *(sink.to_list() for sink in sinks),
        on=on,
        on_error=ab.dead_letter(failures.append),
    )

    assert [("keyed", "a"), ("keyed", "b"), ("single", None)] == [
        (failure.operator, failure.key) for failure in failures
    ]
    for failure in failures:
        assert (None, False) == (failure.item, failure.has_item)
        assert "the end of the stream" == failure.where
    first, _, last = (failure.text for failure in failures)
    assert "failed at the end of the stream for key 'a': ValueError: not yet" in first
    assert "failed at the end of the stream: ValueError: not yet" in last


def test_a_dead_letter_of_the_end_has_no_item(tmp_path):
    path = tmp_path / "lost.jsonl"
    s = ab.from_iterable([Tick(1, "b")]).key_by("k").apply(Unfinished).to_list()

    ab.run(s, on="sequential", on_error=ab.dead_letter(str(path)))

    record = json.loads(path.read_text())
    assert (None, "'b'") == (record["item"], record["key"])


class MuteError(Exception):
    """An error that cannot say what it is about."""

    def __str__(self):
        raise RuntimeError


def test_an_error_without_a_text_is_named_with_operator_and_item():
    def fail(number):
        raise MuteError

    with pytest.raises(ab.errors.OperatorError) as caught:
        ab.run(ab.from_iterable([7], int).map(fail).to_list(), on="local")

    said = str(caught.value)
    assert "operator 'map'" in said
    assert "failed on item 1 of from_iterable: 7: MuteError, whose text fails" in said


@pytest.mark.parametrize("kind", [EngineError, CheckpointError])
def test_a_failure_of_the_engine_is_not_the_fault_of_an_item(kind):
    op = Op("sizes", Map(inverse))

    with pytest.raises(kind, match="a state cannot be read"):
        failure_of(op, 3, "item 1", kind("a state cannot be read"))
    with pytest.raises(kind, match="a state cannot be read"):
        failure_at_end(op, "A", kind("a state cannot be read"))


def fail_too(failure):
    return 1 / 0


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_a_function_of_dead_letters_that_fails_is_named(on):
    line = fail_too.__code__.co_firstlineno
    out = ab.from_iterable([3, 0]).map(inverse, name="inverse").to_list()
    text = (
        rf"'fail_too' \(.*test_failures.py:{line}\) must take every failure; it failed, "
        rf"at .*test_failures.py:{line + 1}: ZeroDivisionError: .*"
        r"operator 'inverse' .* failed on item 2 of .*; correct it"
    )

    with pytest.raises(OutputError, match=text):
        ab.run(out, on=on, on_error=ab.dead_letter(fail_too))


def test_an_item_that_cannot_be_shown_is_told_all_the_same():
    """
    Python refuses to write an int of more than 4,300 digits.
    """
    stream = ab.from_iterable([1, 10**5000, 3]).map(lambda n: n if n < 5 else n / 0)

    with pytest.raises(OperatorError, match="<int of 16610 bits>: ZeroDivisionError"):
        ab.run(stream.to_list(), on="sequential")
