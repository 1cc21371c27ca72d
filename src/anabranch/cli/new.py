"""`anabranch new`: a project to start from, with data, a test and a page that explains
it.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from anabranch.cli.console import CommandError, local_path, words

PROGRAM = '''\
"""The volume-weighted price of each symbol, over its last hundred trades."""

from typing import NamedTuple

import anabranch as ab


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float
    volume: int


class Price(NamedTuple):
    ts: int
    symbol: str
    vwap: float


def vwap(trades: list[Trade]) -> Price:
    last = trades[-1]
    money = sum(t.price * t.volume for t in trades)
    return Price(last.ts, last.symbol, money / sum(t.volume for t in trades))


def make_prices(path: str = "trades.csv") -> ab.Stream:
    trades = ab.read_csv(path, Trade).filter(lambda t: t.volume > 0)
    return trades.key_by("symbol").window(count=100, every=10).aggregate(vwap)


program = make_prices().write_csv("prices.csv", mode="overwrite")
'''

TEST = '''\
"""The program gives the same prices everywhere, and the right ones."""

from pathlib import Path

import anabranch as ab

from program import Trade, make_prices, vwap

TRADES = str(Path(__file__).with_name("trades.csv"))


def test_the_price_is_weighted_by_volume():
    trades = [Trade(1, "A", 10.0, 1), Trade(2, "A", 20.0, 3)]

    assert vwap(trades).vwap == 17.5


def test_every_engine_gives_the_result_of_one_thread():
    ab.testing.assert_same_everywhere(lambda: make_prices(TRADES))
'''

README = """\
# {name}

```console
$ anabranch explain program.py      # what runs in parallel, and why
$ anabranch run program.py          # on Spark, on this machine; writes prices.csv
$ anabranch verify program.py       # the same result on every engine?
$ pytest                            # the tests
```

`program.py` is the program, `trades.csv` its input, `test_program.py` its tests. `anabranch doctor`
finds out what this machine lacks.
"""

_TRADES = 5_000
_SYMBOLS = ("ADA", "BOB", "CYD", "DOT")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "new",
        help="make a project to start from",
        description="Make a folder with a small program, data, a test and a page that "
        "says what to type next.",
        epilog="example:\n  anabranch new prices && cd prices && anabranch run program.py",
    )
    parser.add_argument("folder", type=local_path, help="the folder; must not exist")
    parser.set_defaults(command=new)


def new(arguments: argparse.Namespace) -> int:
    """Make the project."""
    folder: Path = arguments.folder
    if folder.exists():
        msg = f"a new project needs a new folder; {folder} exists; choose another name"
        raise CommandError(msg)
    folder.mkdir(parents=True)
    name = folder.resolve().name
    for file, text in {
        "program.py": PROGRAM,
        "test_program.py": TEST,
        "README.md": README.format(name=name),
        "trades.csv": make_trades(),
    }.items():
        (folder / file).write_text(text, encoding="utf-8")
    console = words()
    console.print(f"made {folder}: program.py, test_program.py, trades.csv, README.md")
    console.print(f"next: cd {folder} && anabranch run program.py", markup=False)
    return 0


def make_trades() -> str:
    """Return the text of a CSV file with trades, always the same.

    >>> make_trades().splitlines()[0]
    'ts,symbol,price,volume'
    """
    chance = random.Random(7)
    price = dict.fromkeys(_SYMBOLS, 100.0)
    lines = ["ts,symbol,price,volume"]
    for ts in range(_TRADES):
        symbol = chance.choice(_SYMBOLS)
        price[symbol] = round(price[symbol] + chance.uniform(-0.5, 0.5), 2)
        lines.append(f"{ts},{symbol},{price[symbol]},{chance.randrange(0, 500, 5)}")
    return "\n".join(lines) + "\n"
