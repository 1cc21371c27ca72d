"""Functions written at random, on Spark in columns, across epochs and killed workers.

    python -m tests.engines.spark.fuzz_columns --functions 2000

Graphs of such functions run as jobs with a checkpoint, whose workers are killed at places
chosen at random. What they give is compared with one thread, to the bit; so is the error
of a graph that fails. Kernels are compiled before the first item comes.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.epochs.faults import IN_WORKERS
from anabranch.errors import OperatorError
from tests.compiler.columns.written_functions import HEAD, Items
from tests.compiler.columns.written_graphs import GraphWriter

GRAPHS = 6  # in a job
ITEMS = 400
EPOCH = 90

KILLED_AT = tuple(place for place in IN_WORKERS if place != "snapshot")


class Fuzz:
    """Runs graphs on both engines, in a folder of its own."""

    def __init__(self, folder, seed=0):
        self.folder = folder
        self.rng = random.Random(seed)
        self.found = Counter()
        self.faults = folder / "faults"
        self.faults.mkdir()
        os.environ["ANABRANCH_FAULTS"] = str(self.faults)
        os.environ["ANABRANCH_COMPILE"] = "at once"
        os.environ["PYTHONPATH"] = f"{folder}:{Path.cwd()}"
        sys.path.insert(0, str(folder))

    def run(self, first, functions):
        seed, done = first, 0
        while done < functions:
            writers = [GraphWriter(seed + n) for n in range(GRAPHS)]
            done += sum(len(writer.texts) for writer in writers)
            self.compare(writers, f"fuzzed_{seed}")
            seed += GRAPHS
            print(f"{done} functions, seeds to {seed}: {dict(self.found)}", flush=True)  # noqa: T201 - a tool

    def compare(self, writers, name):
        texts = [text for writer in writers for text in writer.texts]
        (self.folder / f"{name}.py").write_text(HEAD + "\n\n\n".join(texts) + "\n")
        module = importlib.import_module(name)
        whole = []
        for writer in writers:
            rng = random.Random(writer.seed)
            items = [
                Items(rng, writer.rich).make(ITEMS, 0.0) for _ in range(writer.sources)
            ]
            sinks = writer.build(module, items)
            if any(op.effects for op in ab.compile(*sinks).plan.operators):
                self.found["not proven"] += 1  # those run in the driver, in Python
                continue
            try:
                ab.run(*sinks, on="sequential")
                whole.append((writer, items, sinks))
            except OperatorError as error:
                if self.rng.random() < 0.2:  # each takes a job of its own
                    self.must_fail(writer.build(module, items), str(error), writer.seed)
        if not whole:
            return
        made = [writer.build(module, items) for writer, items, _ in whole]
        self.ask_for_kills()
        job = ab.run(
            *[sink for sinks in made for sink in sinks],
            epoch_items=EPOCH,
            degree=2,
            checkpoint=self.folder / f"checkpoint_{name}",
        )
        for (writer, _, one), two in zip(whole, made, strict=True):
            for expected, actual in zip(one, two, strict=True):
                same = list(map(repr, expected.items)) == list(map(repr, actual.items))
                assert same, f"seed {writer.seed}, {expected.name}"
        shares = job.metrics().in_columns
        self.found["kernels"] += len(shares)
        self.found["in columns"] += sum(share > 0.5 for share in shares.values())
        self.found["graphs"] += len(whole)

    def must_fail(self, sinks, text, seed):
        self.found["failing"] += 1
        with pytest.raises(OperatorError) as raised:
            ab.run(*sinks, epoch_items=EPOCH, degree=2)
        assert tell_error(text) == tell_error(str(raised.value)), f"seed {seed}"

    def ask_for_kills(self):
        for left in self.faults.iterdir():
            left.unlink()  # a place that the last job did not come to
            self.found["kills"] -= 1
        for place in self.rng.sample(KILLED_AT, 2):
            (self.faults / f"{place}:{self.rng.randrange(1, 4)}").touch()
            self.found["kills"] += 1


def tell_error(text):
    """Return an error without its place, which Spark may tell in other words."""
    return text.partition(" failed ")[0], text.partition(": ")[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--functions", type=int, default=2000)
    parser.add_argument("--first", type=int, default=100_000, metavar="SEED")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Fuzz(Path(folder), options.first).run(options.first, options.functions)


if __name__ == "__main__":
    main()
