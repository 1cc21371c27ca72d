"""Which classes are records: they store what they are given, and give it back."""

from __future__ import annotations

from typing import Any

from anabranch.analysis.objects import class_attribute, field_names


def is_immutable(cls: type) -> bool:
    """Tell whether the attributes of a record stay what they were made with."""
    params = getattr(cls, "__dataclass_params__", None)
    return issubclass(cls, tuple) or bool(params is not None and params.frozen)


def is_plain_record(cls: Any) -> bool:
    """Tell whether a class stores what its constructor gets, and gives it back."""
    names = field_names(cls) or ()
    special = ("__getattribute__", "__post_init__", "__setattr__")
    if any(_is_written_out(class_attribute(cls, name)) for name in special):
        return False
    makers = (class_attribute(cls, "__init__"), class_attribute(cls, "__new__"))
    if any(_is_written_out(getattr(each, "__func__", each)) for each in makers):
        return False
    return not any(isinstance(class_attribute(cls, name), property) for name in names)


def _is_written_out(raw: Any) -> bool:
    """Tell whether a method was written by hand, not generated."""
    code = getattr(raw, "__code__", None)
    return code is not None and not code.co_filename.startswith("<string>")
