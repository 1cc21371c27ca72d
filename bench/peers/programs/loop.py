"""The jobs as a plain Python loop: what everybody else is compared with."""

from __future__ import annotations

import csv
import socket
from functools import partial

import talk
from bench.harness.trades import PLAIN, Price, Trade, running_vwap


def run(job: str, source: str, target: str) -> None:
    talk.began(target)
    with open(source) as file, open(target, "w") as out:  # noqa: PTH123 - as users do
        next(file)
        write = csv.writer(out).writerow
        write(Price._fields)
        PLAIN[job](
            (Trade(int(t), s, float(p), int(v)) for t, s, p, v in csv.reader(file)),
            write,
        )


def live(port: int, target: str) -> None:
    seen = talk.Seen(target)
    states: dict[str, tuple[float, int]] = {}
    with socket.create_connection(("127.0.0.1", port)) as link, link.makefile() as rows:
        for t, s, p, v in csv.reader(rows):
            trade = Trade(int(t), s, float(p), int(v))
            states[s], price = running_vwap(states.get(s, (0.0, 0)), trade)
            seen.note(price.ts)


if __name__ == "__main__":
    talk.main({job: partial(run, job) for job in talk.JOBS}, live)
