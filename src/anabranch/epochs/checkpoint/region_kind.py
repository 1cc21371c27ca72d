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

from anabranch.connectors.storage import locate

CHAINS, GRAPHS = "chains", "graphs"


def has_chains(directory: str | os.PathLike[str]) -> bool:
    """Tell whether an existing checkpoint was made with chains as regions.

    One that cannot be read is refused with its reasons when it is opened.
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
    program: dict[str, Any] = json.loads(path.read_bytes())["program"]
    return program
