"""A file system that refuses: one clear error, and nothing is left behind."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager

import pytest

import anabranch as ab
from anabranch.connectors.files.writer import OutputPlace, open_writer, why_occupied
from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import WriteFiles


@contextmanager
def full_disk(size=10_000):
    """Let no file grow further than that, as a disk with so much space does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("name", ["out", "out.{}"])
@pytest.mark.parametrize("on", ["sequential", "local"])
def test_a_full_disk_is_an_error_that_names_the_output(tmp_path, form, name, on):
    path = tmp_path / name.format(form)
    rows = ab.from_iterable([os.urandom(20).hex() for _ in range(2000)], str)
    sink = getattr(rows, f"write_{form}")(path)

    with full_disk(), pytest.raises(OutputError) as caught:
        ab.run(sink, on=on)

    assert str(caught.value).startswith(f"{path} must be writable; File too large;")
    assert [] == list(tmp_path.iterdir())


def test_a_full_disk_cannot_be_skipped(tmp_path):
    rows = ab.from_iterable(["x" * 100] * 2000, str)

    with full_disk(), pytest.raises(OutputError, match="must be writable"):
        ab.run(rows.write_csv(tmp_path / "out"), on="sequential", on_error="skip")


def test_a_full_disk_is_told_of_a_file_of_dead_letters(tmp_path):
    path = tmp_path / "lost.jsonl"
    rows = ab.from_iterable(["x" * 100] * 200, str).map(int).to_list()

    with full_disk(), pytest.raises(OutputError, match=f"dead letters {path} must be"):
        ab.run(rows, on="sequential", on_error=ab.dead_letter(path))


@pytest.mark.parametrize("name", ["out", "out.csv"])
def test_a_directory_that_may_not_be_written_is_told(tmp_path, name, monkeypatch):
    """
    The tests may run as root, whom no permissions hold: so the system is asked here.
    """

    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.mkdir" if name == "out" else "io.open", refuse)

    with pytest.raises(OutputError, match=f"{name} must be writable; Permission"):
        open_writer(Op("sink", WriteFiles(str(tmp_path / name), "csv")))


def test_a_file_in_the_place_of_a_directory_above_is_named(tmp_path):
    (tmp_path / "file").write_text("x")

    with pytest.raises(OutputError, match=f"File exists: {tmp_path / 'file'};"):
        OutputPlace(WriteFiles(str(tmp_path / "file" / "out.csv"), "csv"))


def test_a_pipe_and_a_device_are_not_replaced_by_an_output(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")

    assert "a pipe, a socket or a device" == why_occupied(tmp_path / "pipe.csv")


def test_a_file_url_is_written_like_its_path(tmp_path):
    sink = ab.from_iterable([1, 2], int).write_csv((tmp_path / "a b.csv").as_uri())

    ab.run(sink, on="sequential")

    assert "value\n1\n2\n" == (tmp_path / "a b.csv").read_text()


def test_a_full_disk_is_no_fault_of_the_items_that_follow(tmp_path):
    lost = []
    rows = ab.from_iterable([os.urandom(20).hex() for _ in range(30_000)], str)

    with full_disk(), pytest.raises(OutputError, match="must be writable"):
        ab.run(
            rows.write_csv(tmp_path / "out"),
            on="sequential",
            on_error=ab.dead_letter(lost.append),
        )

    assert [] == lost


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_an_item_that_does_not_fit_is_told_with_its_sink_and_its_place(tmp_path, on):
    rows = ab.from_iterable(["a", "b", "c\ud800", "d"], str, name="src")
    sink = rows.write_csv(tmp_path / "out.csv", name="prices")
    kept = rows.write_csv(tmp_path / "kept.csv")
    lost = []

    with pytest.raises(OutputError) as caught:
        ab.run(sink, on=on)
    ab.run(kept, on=on, on_error=ab.dead_letter(lost.append))

    said = str(caught.value)
    assert "operator 'prices'" in said
    assert "failed on item 3 of src: 'c\\ud800': OutputError: column 'value'" in said
    assert "value\na\nb\nd\n" == (tmp_path / "kept.csv").read_text()
    assert ["item 3 of src"] == [failure.where for failure in lost]
