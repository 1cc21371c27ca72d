"""How an attribute is read off an item: by its name, or by its key off a dict."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


def attribute_getter(name: str) -> Callable[[Any], Any]:
    """Return the function from an item to one of its attributes.

    >>> attribute_getter("real")(2.0), attribute_getter("user")({"user": "ada"})
    (2.0, 'ada')
    """
    get = operator.attrgetter(name)

    def read(item: Any) -> Any:
        return item[name] if isinstance(item, dict) else get(item)

    return read
