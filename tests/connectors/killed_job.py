"""A job for `test_kills.py`, run in a process of its own.

python killed_job.py DSN TABLE SERVERS TOPIC CHECKPOINT
"""

import sys

import anabranch as ab
from tests.connectors.items import Reading, total


def main(dsn, table, servers, topic, checkpoint):
    source = ab.kafka(servers, topic, Reading, follow=False)
    sums = source.key_by("sensor").scan(total, 0)
    ab.run(
        sums.write_postgres(dsn, table),
        on="spark",
        checkpoint=checkpoint,
        epoch_items=50,
        master="local[2]",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
