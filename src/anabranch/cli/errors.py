"""What the command line itself cannot do for the user."""

from anabranch.errors import AnabranchError


class CommandError(AnabranchError):
    """A file, a name or a folder on the command line is not there or not usable."""
