"""The command line: one file for each command, `main` puts them together."""

from anabranch.cli.main import main

__all__ = ["main"]
