"""How earlier releases divided a checkpoint's program: a job that continues does it too.

Regions were chains of operators, and are graphs; and an `iterate` held the items of its
window itself, which another operator now gathers. The place of a state follows from
this.

Every job asks this, also one on an engine that needs none of the packages of the other
files here. So this file imports none of them.
"""

from __future__ import annotations

import json
import os
from typing import Any

from anabranch.connectors.storage import (
    StorePath,
    advise_on_place,
    describe_failure,
    locate,
)
from anabranch.errors import CheckpointError

CHAINS, GRAPHS = "chains", "graphs"


def has_chains(directory: str | os.PathLike[str]) -> bool:
    """Tell whether an existing checkpoint was made with chains as regions.

    One that cannot be read is refused with its reasons when it is opened; a store that
    does not answer, at once: to ask it again takes as long.
    """
    try:
        return bool(_read_program(directory).get("regions", CHAINS) == CHAINS)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def find_whole_rounds(directory: str | os.PathLike[str]) -> frozenset[str]:
    """Return the operators of a checkpoint that hold the items of their rounds."""
    try:
        operators = _read_program(directory)["operators"].items()
        return frozenset(name for name, one in operators if one["kind"] == "iterate")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return frozenset()


def _read_program(directory: str | os.PathLike[str]) -> dict[str, Any]:
    path = locate(os.fspath(directory)) / "program.json"
    try:
        data = path.read_bytes()
    except OSError as error:
        if isinstance(path, StorePath) and not isinstance(error, FileNotFoundError):
            raise describe_unreachable(path.parent, error) from error
        raise
    program: dict[str, Any] = json.loads(data)["program"]
    return program


def describe_unreachable(path: StorePath, error: OSError) -> CheckpointError:
    """Return the error for a store that does not answer, or rejects its user."""
    return CheckpointError(
        f"a checkpoint must be in a store that can be written; {path}: "
        f"{describe_failure(path, error)}; {advise_on_place(path, '')}"
    )
