"""The command line: one file per command, combined by `main`."""

from anabranch.cli.main import main

__all__ = ["main"]
