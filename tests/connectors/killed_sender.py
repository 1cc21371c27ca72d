"""A job for `test_kafka.py`, run in a process of its own.

python killed_sender.py SERVERS TOPIC BACK CHECKPOINT
"""

import sys

import anabranch as ab


def main(servers, topic, back, checkpoint):
    numbers = ab.kafka(servers, topic, int, follow=False)
    ab.run(
        numbers.to_kafka(servers, back),
        on="spark",
        checkpoint=checkpoint,
        epoch_items=50,
        master="local[2]",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
