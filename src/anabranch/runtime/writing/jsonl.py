"""JSON lines: an object for an item with attributes, a list for a plain tuple.

Numbers, strings, booleans and None are written as JSON has them, bytes as the UTF-8
text that they are, dates in ISO format; tuples and dataclasses inside an item likewise.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from anabranch.errors import OutputError
from anabranch.runtime.writing.columns import columns_of_item, plain

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_SIMPLE = frozenset({int, float, str, bool, type(None)})


def encode_jsonl(items: Iterable[Any]) -> bytes:
    r"""Return items as JSON lines.

    >>> encode_jsonl([1, ("a", None)])
    b'1\n["a", null]\n'
    """
    return "".join(map(json_line, items)).encode()


def json_line(item: Any) -> str:
    """Return an item as one line, with its newline."""
    try:
        return _encode(_jsonable(item)) + "\n"
    except (TypeError, ValueError) as error:
        msg = (
            f"an item must be made of numbers, strings, lists and dicts to be written "
            f"as JSON; got {item!r} ({error}); map it first"
        )
        raise OutputError(msg) from None


def _jsonable(value: Any) -> Any:
    match value:
        case _ if type(value) in _SIMPLE:
            made = value
        case dict():
            made = {key: _jsonable(member) for key, member in value.items()}
        case _ if hasattr(value, "_fields") or _is_dataclass(value):
            names = columns_of_item(value)
            made = {name: _jsonable(getattr(value, name)) for name in names}
        case list() | tuple():
            made = list(map(_jsonable, value))
        case _:
            made = plain(value)
    return made


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
