"""Where the command line talks: its own words go to stderr, stdout is the program's."""

from rich.console import Console


def words() -> Console:
    """Return the console for messages, progress and summaries."""
    return Console(stderr=True, highlight=False, soft_wrap=True)
