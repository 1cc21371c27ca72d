"""What a benchmark reports, and what is kept of it."""

from __future__ import annotations

import json
import subprocess
import sys

from bench.harness import timing


def test_sides_take_turns_and_another_one_begins_each_turn(monkeypatch):
    monkeypatch.delenv("ANABRANCH_QUICK", raising=False)
    ran = []

    times = timing.interleaved(
        {"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}, repetitions=2
    )

    assert list("ababba") == ran
    assert {"a": 2, "b": 2} == {name: len(found) for name, found in times.items()}


def test_a_quick_run_has_two_repetitions_and_small_sizes(monkeypatch):
    monkeypatch.setenv("ANABRANCH_QUICK", "1")

    assert 2 == len(timing.interleaved({"a": lambda: None}, 7)["a"])
    assert 10 == timing.sized(1000, 10)


def test_a_ratio_is_of_medians_and_its_spread_of_pairs():
    found = timing.ratio([2.0, 6.0, 4.0], [1.0, 2.0, 4.0])

    assert {"ratio": 2.0, "low": 1.0, "high": 3.0} == found


def test_ratios_become_claims_wherever_they_are():
    found = {"ratio": 2.0, "low": 1.0, "high": 3.0}

    claims = timing.claims_in("x", {"a": found, "b": {"c": found}, "d": [1, 2]})

    assert ["x: a", "x: b: c"] == [claim.what for claim in claims]


def test_numbers_are_shown_short_and_in_full():
    cells = [1234.6, 99.94, 0.12345, 2_000_000, None, "x"]

    assert ["1,235", "99.9", "0.123", "2000000", "-", "x"] == [
        timing.cell_text(cell) for cell in cells
    ]


def test_nothing_is_recorded_unless_asked(monkeypatch, tmp_path):
    monkeypatch.delenv("ANABRANCH_RESULTS", raising=False)
    monkeypatch.chdir(tmp_path)

    timing.report("x", {"a": 1})

    assert [] == list(tmp_path.iterdir())


def test_a_record_says_what_was_run_and_what_was_found(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ANABRANCH_RESULTS", str(tmp_path / "kept"))
    monkeypatch.setattr(sys, "argv", ["bench/local/scaling.py", "--rows", "7"])
    claim = timing.Claim("two over one", 1.9, 1.8, 2.0, paper="2", at_least=1.8)
    table = timing.Table("figure", ["n", "x"], [[1, 0.5], [2, None]])

    timing.report("big one", {"a": [1]}, claims=[claim], tables=[table])

    kept = json.loads(
        (tmp_path / "kept" / "local" / "scaling-big-one.json").read_text()
    )
    assert "local/scaling" == kept["bench"]
    assert ["--rows", "7"] == kept["arguments"]
    assert "two over one" == kept["claims"][0]["what"]
    assert [[1, 0.5], [2, None]] == kept["tables"][0]["rows"]
    said = capsys.readouterr().out
    assert "big one: two over one: 1.9 times (1.8 to 2); paper: 2" in said
    assert "2    -" in said


def test_a_record_of_the_same_series_does_not_change_what_is_measured(tmp_path):
    def git(*words):
        who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)

    for name in ("bench/records/a.json", "docs/results.md", "src/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("before")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    (tmp_path / "bench/records/a.json").write_text("after")
    (tmp_path / "docs/results.md").write_text("after")

    assert "," not in timing.find_commit(tmp_path)

    (tmp_path / "src/a.py").write_text("after")

    assert timing.find_commit(tmp_path).endswith(", with changes")
