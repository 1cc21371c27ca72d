"""A job with own connectors for `test_own_kills.py`, run in a process of its own.

python -m tests.connectors.own_job files|ledger|parts OUTPUT CHECKPOINT
"""

import sys

import anabranch as ab
from tests.connectors.own import Cell, Files, Grid, Ledger, Parted

SINKS = {"files": Files, "ledger": Ledger, "parts": Parted}


def main(sink, output, checkpoint):
    cells = ab.read(Grid((30, 50, 20), block=10), Cell)
    ab.run(
        cells.map(lambda cell: f"{cell.partition} {cell.row}").write(
            SINKS[sink](output)
        ),
        on="spark",
        checkpoint=checkpoint,
        epoch_items=30,
        master="local[2]",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
