"""An environment for each peer, made once and kept in out/peers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.contestants import Peer

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "bench" / "peers" / "programs"


class NotInstallableError(Exception):
    """A peer cannot be installed here; the message has the command and its words."""


def python_of(peer: Peer, key: str, folder: Path) -> str:
    """Return the interpreter of a peer's environment, which is made if need be."""
    if not peer.packages:
        return sys.executable
    home = folder / peer.program.split("_")[0]
    python = str(home / "bin" / "python")
    ready = home / ".ready"
    if not ready.exists():
        print(f"peers: making an environment for {key} in {home}", file=sys.stderr)
        shutil.rmtree(home, ignore_errors=True)
        _must([sys.executable, "-m", "venv", str(home)])
        for group in peer.packages:
            _must([python, "-m", "pip", "install", "--quiet", *group])
        ready.touch()
    return python


def version_of(peer: Peer, python: str) -> str:
    """Return the version of what the peer is about, or of Python for plain ones."""
    if not peer.packages:
        return ""
    package = re.split(r"[<>=]", peer.packages[-1][0])[0]
    code = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def variables_of(peer: Peer, python: str) -> dict[str, str]:
    """Return the environment variables that a peer's program is started with."""
    ways = [str(ROOT), str(PROGRAMS), os.environ.get("PYTHONPATH", "")]
    if peer.packages:  # it has its own environment: nothing of ours gets in
        ways.pop()
    return {
        **os.environ,
        **peer.variables,
        "PYTHONPATH": os.pathsep.join(way for way in ways if way),
        "PATH": os.pathsep.join([str(Path(python).parent), os.environ["PATH"]]),
    }


def _must(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = [
            line for line in done.stderr.splitlines() if not line.startswith("WARNING")
        ]
        said = " ".join(words[-2:])[:300]
        shown = " ".join(["python", *command[1:]])
        msg = f"`{shown}` failed: {said}"
        raise NotInstallableError(msg)
