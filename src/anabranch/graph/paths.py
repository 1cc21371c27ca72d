"""The user's paths: plain ones, `file:` URLs, and invalid ones.

A URL of another scheme would otherwise count as a relative path: `s3://b/x` would be
written to a local folder named `s3:`, and the job would report success.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote_to_bytes

# A scheme and a slash. `Path("s3://b")` has lost one of the two slashes.
_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):/")
_FILE_URL = re.compile(r"\s*file:(?://([^/]*)|(?!//))(/.*)", re.IGNORECASE | re.DOTALL)
# Schemes of storage systems: these are URLs even without a slash (`hdfs:x`). Any other
# name with a colon in it (`12:30.csv`, `a:b`) is an ordinary file name.
_STORAGE = re.compile(
    r"\s*(abfss?|adl|azure|az|cos|dbfs|file|ftps?|gcs|gs|hdfs|https?|jdbc|oci|oss|r2|"
    r"s3[an]?|sftp|ssh|viewfs|wasbs?|webhdfs):",
    re.IGNORECASE,
)
OPTIONS = (
    "anonymous",
    "endpoint_override",
    "region",
    "replication",
    "retry_limit_seconds",
    "scheme",
    "user",
)
_OPTION = rf"(?:{'|'.join(OPTIONS)})=[^?*\[\]&=]*"
_OPTIONS = re.compile(rf"\?({_OPTION}(?:&{_OPTION})*)$")
_LIKE_OPTIONS = re.compile(r"\?(\w+=[^?*\[\]&=/]*(?:&\w+=[^?*\[\]&=/]*)*)$")
_HERE = ("", "localhost")  # the hosts of a file: URL that mean this machine


def plain_path(given: Any) -> Any:
    """Return a path without a `file:` scheme and with `~` expanded.

    Anything that is not a usable path is returned unchanged; `why_not_path` says why.

    >>> plain_path("file:///data/a%20b.csv"), plain_path("trades.csv")
    ('/data/a b.csv', 'trades.csv')
    >>> plain_path("s3://bucket/trades.csv")
    's3://bucket/trades.csv'
    """
    if not isinstance(given, str | os.PathLike):
        return given
    path = os.fspath(given)
    if not isinstance(path, str):
        return given
    url = _FILE_URL.fullmatch(path)
    if url is not None and (url[1] or "").lower() in _HERE:
        return os.fsdecode(unquote_to_bytes(os.fsencode(url[2])))
    return os.path.expanduser(path)  # noqa: PTH111 - a Path would drop a final slash


def split_url(path: str) -> tuple[str, str] | None:
    """Return the scheme of a URL, in lower case, and the rest; None for a path.

    >>> split_url("S3://bucket/trades.csv"), split_url("12:30.csv")
    (('s3', 'bucket/trades.csv'), None)
    """
    found = _URL.match(path) or _STORAGE.match(path)
    if found is None:
        return None
    return found[1].lower(), path.strip()[len(found[1]) + 1 :].removeprefix("//")


def split_options(path: str) -> tuple[str, str]:
    """Return the URL of a store without its options, and these; a path has none.

    >>> split_options("s3://b/out.csv?region=eu-west-1")
    ('s3://b/out.csv', 'region=eu-west-1')
    """
    found = _OPTIONS.search(path) if split_url(path) is not None else None
    return (path, "") if found is None else (path[: found.start()], found[1])


def find_unknown_option(path: str) -> str | None:
    """Return an option of a URL that no store takes, or None.

    >>> find_unknown_option("s3://b/out.csv?regoin=eu-west-1")
    'regoin'
    >>> find_unknown_option("s3://b/out.csv?region=eu-west-1") is None
    True
    """
    found = _LIKE_OPTIONS.search(path)
    if found is None or split_options(path)[1]:
        return None
    names = (one.partition("=")[0] for one in found[1].split("&"))
    return next((name for name in names if name not in OPTIONS), None)


def is_store_url(path: Any) -> bool:
    """Tell whether a path is the URL of a store, and not of this machine.

    >>> is_store_url("s3://bucket/trades.csv"), is_store_url("file:///x")
    (True, False)
    """
    found = split_url(path) if isinstance(path, str) and path.strip() else None
    return found is not None and found[0] != "file" and "\0" not in path


def why_not_path(path: Any) -> str | None:
    """Return why a result of `plain_path` cannot be a path of this machine, or None.

    >>> why_not_path("s3://bucket/trades.csv")
    "'s3://bucket/trades.csv' is a URL with the scheme s3"
    >>> why_not_path("12:30.csv") is None
    True
    >>> why_not_path("~nobody-of-that-name/trades.csv")
    "'~nobody-of-that-name/trades.csv' is in the home of a user who does not exist"
    """
    if not isinstance(path, str):
        return f"{path!r} is a {type(path).__name__}, not a str or a pathlib.Path"
    if not path.strip():
        return f"{path!r} is empty"
    if "\0" in path:
        return f"{path!r} holds a NUL character"
    if path.startswith("~") and "/" in path:
        return f"{path!r} is in the home of a user who does not exist"
    return _why_not_plain(path)


def _why_not_plain(path: str) -> str | None:
    found = _URL.match(path) or _STORAGE.match(path)
    if found is None:
        return None
    if found[1].lower() != "file":
        return f"{path!r} is a URL with the scheme {found[1]}"
    url = _FILE_URL.fullmatch(path)
    if url is None:
        return f"{path!r} is a file: URL without an absolute path"
    return f"{path!r} is a file: URL of the host {url[1]!r}"


def path_advice(path: Any) -> str:
    """Return the advice about a path that `why_not_path` refuses.

    >>> path_advice(None)
    'give the path as a str or a pathlib.Path'
    """
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        return "give the path as a str or a pathlib.Path"
    scheme = path.partition(":")[0].strip().lower()
    if scheme == "file":
        return "write file:///absolute/path, or the path alone"
    return (
        f"give a local path or file:///absolute/path (a local path that looks like a "
        f"URL begins with ./, as in './{path.strip()}')"
    )
