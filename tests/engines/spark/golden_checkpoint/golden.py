"""What the script that makes golden checkpoints and their test share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anabranch as ab
from anabranch.cli.console import load_module
from anabranch.epochs.checkpoint.seal import NO_KEY

FOLDER = Path(__file__).parent
PROGRAMS = ("groups", "states")  # functions of `golden_job.py`
HERE = "@HERE@"  # in a golden checkpoint, instead of the directory of the input


def run_golden(
    program: str, folder: Path, seen: dict[str, list[Any]], **options: Any
) -> list[Any]:
    """Run a program on the input in `folder`; return the items that failed.

    `seen` gets the items of each stream.
    """
    for name in ("golden_job.py", "events.csv"):
        shutil.copy(FOLDER / name, folder)
    streams = getattr(load_module(folder / "golden_job.py"), program)(folder)
    failures: list[Any] = []
    on_error = "stop" if program == "groups" else ab.dead_letter(failures.append)
    sinks = [
        stream.for_each(seen.setdefault(name, []).append, name=f"out_{name}")
        for name, stream in streams.items()
    ]
    ab.run(*sinks, on_error=on_error, **options)
    return [failure.item for failure in failures]


def copy_golden(form: int, program: str, folder: Path) -> Path:
    """Copy a golden checkpoint into `folder`; return where it is."""
    made = folder / "checkpoint"
    shutil.copytree(FOLDER / f"format-{form}" / program, made)
    for path in (made, *made.rglob("*/")):
        path.chmod(0o700)  # not every copy of the repository keeps the others out
    replace_in_records(made, HERE, str(folder))
    return made


def replace_in_records(checkpoint: Path, old: str, new: str) -> None:
    """Replace a text in the JSON files of a checkpoint, and make their digests anew."""
    for path in (checkpoint / "program.json", *(checkpoint / "commits").iterdir()):
        payload, has_digest = NO_KEY.detach(path, path.read_bytes())
        replaced = payload.replace(old.encode(), new.encode())
        path.write_bytes(NO_KEY.attach(replaced) if has_digest else replaced)
