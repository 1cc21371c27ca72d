"""A job on a standalone cluster to which something happens: a driver of its own.

The fault is caused where it is certain to matter: by a task that is at work. It happens
once, as a file says.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.engines.spark import residence

ITEMS, EPOCH_ITEMS, DEGREE = 600, 100, 4
AT = 250  # the first task that meets this item or a later one causes it
SLOW_S = 30.0  # longer than all the rest takes
STOPPED_S = 4.0
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "500ms",
}
DECOMMISSION = {"spark.decommission.enabled": "true"}


class Tick(NamedTuple):
    number: int
    symbol: str


class Total(NamedTuple):
    number: int
    symbol: str
    total: int


def make_ticks() -> list[Tick]:
    return [Tick(n, f"S{n * n % 37}") for n in range(ITEMS)]


def add(total: int, tick: Tick) -> tuple[int, Total]:
    total += tick.number
    return total, Total(tick.number, tick.symbol, total)


def expect() -> list[str]:
    """Return the rows of the output, by a loop."""
    totals: dict[str, int] = {}
    found = ["number,symbol,total"]
    for number, symbol in make_ticks():
        totals[symbol] = totals.get(symbol, 0) + number
        found.append(f"{number},{symbol},{totals[symbol]}")
    return found


def lose_shuffled_rows(folder: Path) -> None:
    """Remove all rows that tasks have written for those of the next stage."""
    for path in folder.glob("cluster/tmp*/**/shuffle_*"):
        path.unlink(missing_ok=True)


def be_slow(_: Path) -> None:
    time.sleep(SLOW_S)


def find_executor() -> int:
    """Return the executor of this worker: the parent of the daemon that has forked it."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(daemon.rpartition(")")[2].split()[1])


def decommission(_: Path) -> None:
    os.kill(find_executor(), signal.SIGPWR)


def lose_executor(_: Path) -> None:
    os.kill(find_executor(), signal.SIGKILL)


def stop_host(_: Path) -> None:
    """Let the executor and this worker stand still for a while."""
    mine, executor = os.getpid(), find_executor()
    resume = f"sleep {STOPPED_S}; kill -CONT {mine} {executor}"
    subprocess.Popen(["sh", "-c", resume], start_new_session=True)
    os.kill(executor, signal.SIGSTOP)
    os.kill(mine, signal.SIGSTOP)


def kill_driver(folder: Path) -> None:
    os.kill(int((folder / "driver").read_text()), signal.SIGKILL)


class Fault(NamedTuple):
    """What happens, in which stage, and the settings of Spark that it needs."""

    cause: Callable[[Path], None]
    keyed: bool = True
    settings: dict[str, str] = {}  # noqa: RUF012 - nobody changes it


FAULTS = {
    "fetch failure": Fault(lose_shuffled_rows),
    "speculation": Fault(be_slow, settings=SPECULATION),
    "decommission": Fault(decommission, settings=DECOMMISSION),
    "loss": Fault(lose_executor),
    "slow host": Fault(stop_host, keyed=False),
    "driver restart": Fault(kill_driver),
}


def once(fault: Fault, folder: Path) -> Callable[[int], None]:
    """Return a function that causes the fault, once in all processes.

    Whichever task is first does it, while others of its stage have not begun.
    """
    flag = str(folder / "caused")

    def cause(number: int) -> None:
        if number >= AT and not os.path.exists(flag):  # noqa: PTH110 - by its name
            try:
                os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            fault.cause(folder)

    return cause


def drive(url: str, folder: Path, name: str, *, jobs: bool) -> None:
    """Run the program, which writes `folder/totals.csv`."""
    fault = FAULTS[name]
    if jobs:
        residence.MOST = 0
    (folder / "driver").write_text(str(os.getpid()))
    events = folder / "events"
    events.mkdir(exist_ok=True)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": events.as_uri(),
        **fault.settings,
    }
    builder = SparkSession.builder.master(url).appName("faults")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    cause = once(fault, folder)

    @ab.declare(state="stateless")
    def touch(tick: Tick) -> Tick:
        if not fault.keyed:
            cause(tick.number)
        return tick

    @ab.declare(state="stateless")
    def touch_total(total: Total) -> Total:
        if fault.keyed:
            cause(total.number)
        return total

    ticks = ab.from_iterable(make_ticks(), Tick).map(touch)
    out = ticks.key_by("symbol").scan(add, 0).map(touch_total)
    ab.run(
        out.write_csv(folder / "totals.csv"),
        on="spark",
        degree=DEGREE,
        epoch_items=EPOCH_ITEMS,
        checkpoint=folder / "checkpoint",
        ui=False,
    )
    spark.stop()


if __name__ == "__main__":
    drive(sys.argv[1], Path(sys.argv[2]), sys.argv[3], jobs=sys.argv[4] == "jobs")
