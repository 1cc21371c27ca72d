"""The folders of the project that are not installed with the package."""

from __future__ import annotations

from pathlib import Path

from anabranch.cli.errors import CommandError

_PROJECT = Path(__file__).resolve().parents[3]


def project_folder(name: str) -> Path:
    """Return `apps` or `bench`: of the checkout that is installed, or of this folder."""
    for root in (_PROJECT, Path.cwd()):
        if (root / name).is_dir() and (root / "pyproject.toml").is_file():
            return root / name
    msg = f"{name}/ is part of the project's repository; run this in a checkout of it"
    raise CommandError(msg)
