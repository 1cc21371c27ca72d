"""Epochs take no more items than the driver can take results of."""

from __future__ import annotations

import contextlib
import json
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.spark import engine
from anabranch.epochs import end_of_stream
from anabranch.errors import EngineError
from tests import needs
from tests.engines.spark.imitation import Cluster, Frame, Killed, imitated, undisturbed

LIMIT = 64_000


def test_epochs_become_smaller_and_the_history_says_why(monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "find_result_limit", lambda _: LIMIT)
    texts = [f"{n:0200}" for n in range(1_000)]
    sink = ab.from_iterable(texts, str).map(str.strip).to_list()

    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        job = ab.run(sink, on="spark", degree=1)

    assert texts == sink.items
    _, *others = job.metrics().epoch_items
    assert max(others) * 200 < LIMIT / 2
    told = [one for one in job.history if "spark.driver.maxResultSize" in one.why]
    assert 1 == len(told)
    assert told[0].what.startswith("epochs take at most ")


def refuse_large(monkeypatch):
    """Have Spark refuse results of more than the limit, as it does."""
    collect = Frame.toArrow

    def refusing(self):
        table = collect(self)
        rows = zip(table["unit"].to_pylist(), table["payload"].to_pylist(), strict=True)
        size = sum(len(payload) for unit, payload in rows if unit < 0)
        if size > LIMIT:
            msg = f"Total size of serialized results of 2 tasks ({size} B) is bigger"
            raise RuntimeError(msg)
        return table

    monkeypatch.setattr(Frame, "toArrow", refusing)


def read_texts(kind, folder):
    texts = [f"{n:0200}" for n in range(1_000)]
    if kind == "list":
        return ab.from_iterable(texts, str)
    (folder / "texts").write_text("\n".join(texts))
    return ab.read_text(folder / "texts")


@pytest.mark.parametrize("kind", ["list", "file"])
def test_an_epoch_that_is_too_large_is_taken_again_in_parts(
    kind, monkeypatch, tmp_path
):
    refuse_large(monkeypatch)
    sink = read_texts(kind, tmp_path).map(str.strip).to_list()

    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        job = ab.run(sink, on="spark", degree=1, epoch_items=600)

    assert [f"{n:0200}" for n in range(1_000)] == sink.items
    assert max(job.metrics().epoch_items) <= 300
    told = [one for one in job.history if "spark.driver.maxResultSize" in one.why]
    assert told[0].what.startswith("epochs take at most ")
    assert {"read": 1_000} == {"read": sum(job.metrics().read.values())}


def test_one_item_that_is_too_large_is_an_error_that_says_so(monkeypatch, tmp_path):
    refuse_large(monkeypatch)
    sink = ab.from_iterable(["x" * 2 * LIMIT], str).map(str.strip).to_list()

    with (
        imitated(monkeypatch, Cluster(undisturbed), tmp_path),
        pytest.raises(EngineError, match=r"maxResultSize.*epoch_items"),
    ):
        ab.run(sink, on="spark", degree=1)


class Visit(NamedTuple):
    page: str
    number: int


def last_visit(visits: list[Visit]) -> Visit:
    return visits[-1]


def count(total: int, visit: Visit) -> tuple[int, Visit]:
    return total + 1, visit._replace(number=visit.number + 10_000 * total)


def visit_pages():
    """Return the last visits of pages whose windows are open at the end, and windows
    of these in turn.
    """
    visits = [Visit(f"page {n * 7 % 101} {'x' * 100}", n) for n in range(500)]
    return (
        ab.from_iterable(visits, Visit)
        .key_by("page")
        .window(count=100)
        .aggregate(last_visit, name="last")
        .key_by()
        .scan(count, 0)
        .key_by("page")
        .window(count=3)
        .aggregate(last_visit, name="second")
    )


def expect_visits():
    sink = visit_pages().to_list()
    ab.run(sink, on="sequential")
    return sink.items


@pytest.mark.parametrize("degree", needs.quick(1, [3, 1]))
def test_the_last_outputs_of_many_keys_come_span_by_span(degree, monkeypatch, tmp_path):
    monkeypatch.setattr(end_of_stream, "MOST_KEYS", 12)
    sizes = []
    inject = end_of_stream.EndOfStream._inject
    monkeypatch.setattr(
        end_of_stream.EndOfStream,
        "_inject",
        lambda self, name, reports, giver: (
            sizes.append(sum(len(r.finished[name]) for r in reports)),
            inject(self, name, reports, giver),
        )[1],
    )
    sink = visit_pages().to_list()

    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        ab.run(sink, on="spark", degree=degree)

    assert expect_visits() == sink.items
    assert 202 == sum(sizes)
    assert max(sizes) <= 12


def test_last_outputs_that_are_too_large_come_in_smaller_spans(monkeypatch, tmp_path):
    refuse_large(monkeypatch)
    visits = [Visit(f"{n:0900}", n) for n in range(300)]
    program = ab.from_iterable(visits, Visit).key_by("page").window(count=100)

    def run(on, **options):
        sink = program.aggregate(last_visit).map(lambda v: v.number).to_list()
        return sink, ab.run(sink, on=on, **options)

    expected, _ = run("sequential")
    monkeypatch.setattr(end_of_stream, "MOST_KEYS", 512)
    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        sink, job = run("spark", degree=2)

    assert expected.items == sink.items
    assert any("last outputs" in one.what for one in job.history)


@pytest.mark.parametrize("epoch", needs.quick(1, range(5, 12, 3)))
def test_a_job_killed_between_spans_goes_on_behind_the_last(
    epoch, monkeypatch, tmp_path
):
    monkeypatch.setattr(end_of_stream, "MOST_KEYS", 12)
    expected = expect_visits()
    killed = []

    def kill(place, at):
        if place == "committed" and at == epoch and not killed:
            killed.append(at)
            raise Killed

    for _ in range(2):
        sink = visit_pages().write_jsonl(tmp_path / "out")
        with (
            imitated(monkeypatch, Cluster(undisturbed), tmp_path / "hosts", kill),
            contextlib.suppress(Killed),
        ):
            ab.run(sink, on="spark", degree=2, checkpoint=tmp_path / "checkpoint")

    assert [epoch] == killed
    parts = sorted((tmp_path / "out").glob("part-*"))
    lines = "".join(part.read_text() for part in parts).splitlines()
    assert expected == [Visit(**json.loads(line)) for line in lines]
