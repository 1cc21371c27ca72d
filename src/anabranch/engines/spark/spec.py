"""What the workers know of a job for its whole length."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anabranch.engines.spark.layout import Layout
from anabranch.engines.spark.pickling import Pickler
from anabranch.engines.spark.restoring import local_directory


@dataclass(frozen=True)
class Spec:
    """What stays the same for a whole job: the layout and the directories."""

    job: str
    layout: Layout
    resilient: bool
    state_directory: str  # of this host, without a checkpoint
    outputs: dict[str, str]  # file sink -> directory of its parts
    checkpoint: str | None = None
    identity: str = ""  # of the checkpoint

    @property
    def states(self) -> Path:
        """Where this host has the states; after a restart, where it had them."""
        if self.checkpoint is None:
            return Path(self.state_directory)
        return local_directory(self.identity)


@dataclass(frozen=True)
class Job:
    """A job in a process: what was shipped, and what follows from it."""

    spec: Spec
    pickler: Pickler
    marked: frozenset[str]  # operators whose outputs may carry punctuations
