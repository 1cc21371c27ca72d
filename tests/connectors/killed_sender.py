"""A job for `test_kafka.py`, run in a process of its own, with a place to be killed at
inside the transaction of an epoch.

python killed_sender.py SERVERS TOPIC BACK CHECKPOINT
"""

import sys

import anabranch as ab
from anabranch.connectors.kafka import KafkaSink
from anabranch.epochs.faults import reach


def stop_in_transactions():
    prepare = KafkaSink.prepare

    def prepare_and_reach(self, epoch):
        prepare(self, epoch)
        self._producer.flush()
        reach("sent", epoch)

    KafkaSink.prepare = prepare_and_reach


def main(servers, topic, back, checkpoint):
    stop_in_transactions()
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
