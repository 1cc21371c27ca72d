"""Figure 8 (a): a Huffman encoder and decoder with three operators between them.

The encoder and the decoder are those of the application; the operators between them are
busy for a number of computations for each byte, as in the paper. Demand-driven has a box
for each of the three parts; hybrid is the local engine as `ab.run` starts it, which
replicates the middle. The program is compiled before, as in the paper; with the time that
takes, it is a row of its own.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "apps"))

import anabranch as ab
from bench.harness.timing import sized
from bench.hybrid.figure import Figure, over, speeds, spread
from bench.hybrid.schedulers import demand
from bench.hybrid.schedulers.stages import row_of
from bench.hybrid.work import computed, run_by_users, run_compiled
from huffman import Decode, Encode, huffman_code
from samples import real_file

WORK = 1000
SYMBOLS = sized(60_000, 600)


@ab.declare(state="stateless")
def busy(byte: int) -> int:
    computed(1.0, WORK)
    return byte


def main() -> None:
    figure = Figure(
        "hybrid-fig8a",
        "Huffman encoder and decoder: hybrid over demand-driven",
        ("threads", "times as fast"),
        "1.2 times on 8 cores",
    )
    path = real_file("corpora", "alice29.txt")
    data = path.read_bytes() if path else bytes(range(32, 127)) * 200
    symbols = list(data[:SYMBOLS])
    code = huffman_code(Counter(symbols))
    stream = ab.from_iterable(symbols, int).apply(Encode, code)
    for _ in range(3):
        stream = stream.map(busy)
    row = row_of(stream.apply(Decode, code, len(symbols)).to_list())
    assert demand.run(row, [1, 3, 1]) == symbols
    for threads in (1, 2):
        found = speeds(
            {
                "demand": partial(demand.run, row, [1, 3, 1], 100, threads),
                "hybrid": run_compiled(row, threads),
                "with compiling": run_by_users(row, threads),
            },
            len(symbols),
        )
        ratio = over(found["hybrid"], found["demand"])
        figure.point("hybrid", threads, ratio, spread(found["hybrid"]))
        what = f"hybrid over demand-driven, {threads} threads"
        figure.claim(what, found["hybrid"], found["demand"], at_least=1.2)
        figure.claim(
            f"{what}, with compiling",
            found["with compiling"],
            found["demand"],
            at_least=1.2,
            remark="start-up included; the paper measures programs compiled before",
        )
    figure.note("2 cores; the encoder and the decoder hold the interpreter's lock")
    figure.finish()


if __name__ == "__main__":
    main()
