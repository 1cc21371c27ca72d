"""Break-in attempts against fail2ban's count, and a count by plain text search."""

from __future__ import annotations

import csv
from collections import Counter

import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app


@pytest.fixture(scope="module")
def monitoring():
    return load_app("network_monitoring")


@pytest.fixture(scope="module")
def sample(monitoring, tmp_path_factory):
    return monitoring.sample_file(tmp_path_factory.mktemp("sample"))


def reported(folder):
    parts = [part.read_text() for part in sorted(folder.glob("part-*.csv"))]
    return [row for part in parts for row in csv.DictReader(part.splitlines())]


def failures(lines):
    """
    Yield (ten minutes, address) by words and their places, not by patterns.
    """
    address_of = {}
    for line in lines:
        month, day, time, server, daemon, *words = line.split()
        if not daemon.startswith("sshd"):
            continue
        days = {"Mar": 62, "Dec": 341}[month] + int(day)
        hours, minutes, _ = map(int, time.split(":"))
        session = server, daemon
        if words[0] in ("Failed", "Invalid"):
            place = len(words) - 1 - words[::-1].index("from")
            address_of[session] = words[place + 1]
        elif "Auth fail" in line:
            address_of[session] = words[4].rstrip(":")
        elif "Too many" not in line:
            continue
        yield days * 144 + hours * 6 + minutes // 10, address_of[session]


@pytest.mark.parametrize("on", ENGINES)
def test_bursts_of_the_sample_are_those_of_a_text_search(
    monitoring, sample, on, tmp_path
):
    counted = Counter(failures(sample.read_text().splitlines()))

    ab.run(monitoring.program(sample, tmp_path / "out"), on=on)

    bursts = reported(tmp_path / "out")
    wanted = sorted((*key, n) for key, n in counted.items() if n >= 5)
    assert wanted
    assert wanted == sorted(
        (int(row["first"]) // 600, row["address"], int(row["failures"]))
        for row in bursts
    )
    assert any(int(row["in_all"]) > int(row["failures"]) for row in bursts)


def test_failures_by_address_are_those_of_fail2ban(monitoring, data, tmp_path):
    """
    fail2ban does not read a last line without a line end, so it is left out here too.
    """
    logs = data / "logs"
    whole = (logs / "OpenSSH_2k.log").read_text().rpartition("\n")[0] + "\n"
    (tmp_path / "log").write_text(whole)
    wanted = (logs / "fail2ban_OpenSSH_failures_by_ip_normal.csv").read_text().split()

    ab.run(
        monitoring.program(tmp_path / "log", tmp_path / "out", least=1), on="sequential"
    )

    totals = {row["address"]: row["in_all"] for row in reported(tmp_path / "out")}
    assert sorted(wanted) == sorted(f"{one},{n}" for one, n in totals.items())
