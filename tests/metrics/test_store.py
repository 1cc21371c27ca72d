"""The file of a run is read while it is written."""

from __future__ import annotations

from anabranch.metrics.run_record import Follower, append


def sample(second):
    return {"sample": {"at_s": second, "read": 0, "delivered": 0}}


def test_a_file_is_read_as_it_grows(tmp_path):
    path = tmp_path / "run.jsonl"
    append(path, [{"program": {"on": "local"}}, sample(1.0)])
    follower = Follower(path)
    seen = [len(follower.story().samples)]
    append(path, [sample(2.0), sample(3.0)])
    seen.append(len(follower.story().samples))

    assert [1, 3] == seen


def test_a_line_that_is_half_written_waits_for_its_end(tmp_path):
    path = tmp_path / "run.jsonl"
    append(path, [sample(1.0)])
    follower = Follower(path)
    with path.open("a") as file:
        file.write('{"end": {"status": "fin')
    before = follower.story().status
    with path.open("a") as file:
        file.write('ished", "error": null}}\n')

    assert ("running", "finished") == (before, follower.story().status)


def test_whoever_comes_later_reads_the_same(tmp_path):
    path = tmp_path / "run.jsonl"
    early = Follower(path)
    for second in range(5):
        append(path, [sample(float(second))])
        early.story()

    assert early.story().to_dict() == Follower(path).story().to_dict()
