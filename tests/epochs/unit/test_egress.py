"""A task that cannot write its part says where, and what must hold."""

from __future__ import annotations

import re
import socket

import pytest

from anabranch.epochs.unit.egress import write_part
from anabranch.epochs.wire import WireBatch
from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.graph.site import Site
from anabranch.operators.sinks import WriteFiles
from anabranch.runtime.failures import stop


def sink(form):
    return Op("prices", WriteFiles("/data/prices", form), site=Site("job.py", 7))


def batch():
    return WireBatch([], None, None, [1, 2])


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_an_output_that_a_worker_does_not_see_is_named_with_the_worker(tmp_path, form):
    path = tmp_path / "made-elsewhere" / f"part-0.{form}"

    with pytest.raises(OutputError) as caught:
        write_part(sink(form), int, batch(), path, stop)

    said = str(caught.value)
    assert "the output /data/prices of 'prices' (job.py:7) must lie where" in said
    assert f"a task on {socket.gethostname()} does not find {path.parent}" in said
    assert "storage that all hosts share" in said


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_any_other_refusal_names_the_output_as_the_user_did(tmp_path, form):
    (tmp_path / "file").write_text("x")
    path = tmp_path / "file" / f"part-0.{form}"

    wanted = re.escape("/data/prices must be writable; Not a directory")
    with pytest.raises(OutputError, match=wanted):
        write_part(sink(form), int, batch(), path, stop)
