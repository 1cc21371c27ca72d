"""Directories that only this user can read and write.

Their contents are unpickled or executed: compiled kernels, states, the settings of the
JVM. In a shared temporary folder, another user could have created them first, under a
predictable name.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from anabranch.errors import EngineError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_directory(*names: str, within: str | None = None) -> Path:
    """Return a directory of this user in the temporary folder of this host, or in
    another one.

    All processes of the user on this host get the same one for the same names. It is
    created if missing. Raise an `EngineError` if another user could write to it.

    >>> path = private_directory("kernels", "3.11")
    >>> path.parts[-2:], oct(path.stat().st_mode & 0o777)
    (('kernels', '3.11'), '0o700')
    """
    folder = Path(within or tempfile.gettempdir())
    path = make_private(folder / f"anabranch-{os.geteuid()}")
    for name in names:
        path = make_private(path / name)
    return path


def make_private(path: Path) -> Path:
    """Return a directory for this user alone; create it, or refuse it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        why: str | None = error.strerror
    else:
        why = why_not_private(path)
        if why is None and path.stat().st_uid == os.geteuid():
            path.chmod(0o700)  # nobody else needs to read its contents
    if why is not None:
        msg = (
            "files that are unpickled or executed must be in a private directory; "
            f"{path}: {why}; remove it, or name another folder by TMPDIR"
        )
        raise EngineError(msg)
    return path


def why_not_private(path: Path) -> str | None:
    """Return why another user could change the contents of a directory, or None.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp())
    >>> why_not_private(path) is None
    True
    >>> path.chmod(0o777)
    >>> why_not_private(path)
    'others can write to it (mode 777)'
    """
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is a link" if stat.S_ISLNK(found.st_mode) else "it is no directory"
    if found.st_uid not in (os.geteuid(), 0):
        return f"it belongs to user {found.st_uid}, not to {os.geteuid()}"
    if found.st_mode & _OTHERS_WRITE:
        return f"others can write to it (mode {stat.S_IMODE(found.st_mode):o})"
    above = path.resolve().parent.stat()
    if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
        return f"others can put another one in its place (mode of {path.parent})"
    return None
