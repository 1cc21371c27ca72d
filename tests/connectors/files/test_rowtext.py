"""Messages as rows: each is one, the bad ones are named, the others stay."""

from typing import NamedTuple

import pytest

from anabranch.connectors.base import Malformed
from anabranch.connectors.lines import LineDecoder


class Pair(NamedTuple):
    a: str
    b: int


BAD = object()  # stands for a row that is refused
CASES = {
    "json": (int, "jsonl", [b"1", b"2"], [1, 2]),
    "json with a bad one": (int, "jsonl", [b"1", b"x", b"3"], [1, BAD, 3]),
    "json over lines": (int, "jsonl", [b"1", b"\n2\n"], [1, 2]),
    "two values in one": (int, "jsonl", [b"1\n2", b"3"], [BAD, 3]),
    "an empty message": (int, "jsonl", [b"", b"3"], [BAD, 3]),
    "no value at all": (int, "jsonl", [None, b"3"], [BAD, 3]),
    "text": (str, "text", [b"a", b"", b"c"], ["a", "", "c"]),
    "text that is not UTF-8": (str, "text", [b"a", b"\xff"], ["a", BAD]),
    "csv": (Pair, "csv", [b"a,1", b"b,2\n"], [("a", 1), ("b", 2)]),
    "csv with a newline": (Pair, "csv", [b'"a\nb",1'], [("a\nb", 1)]),
    "csv with an open quote": (Pair, "csv", [b'"a,1', b"b,2"], [BAD, ("b", 2)]),
    "csv of two rows": (Pair, "csv", [b"a,1\nb,2"], [BAD]),
}
WHOLE = {
    "csv": (
        Pair,
        "csv",
        [b'"a\nb",1\n', b"b,x\n", b"c,3"],
        [("a\nb", 1), BAD, ("c", 3)],
    ),
    "json behind a blank line": (int, "jsonl", [b"1\n", b"\n2\n"], [1, 2]),
    "text": (str, "text", [b"a\n", b"\n", b"c"], ["a", "", "c"]),
}


def decode(kind, form, values, **options):
    decoder = LineDecoder(form, kind, place="here")
    found = decoder.decode(values, lambda index: f"row {index}", **options)
    bad = {index: one for index, one in enumerate(found) if isinstance(one, Malformed)}
    assert [f"row {index}" for index in bad] == [one.where for one in bad.values()]
    return [BAD if index in bad else one for index, one in enumerate(found)]


@pytest.mark.parametrize(("kind", "form", "values", "items"), CASES.values(), ids=CASES)
def test_messages(kind, form, values, items):
    assert items == decode(kind, form, values)


@pytest.mark.parametrize(("kind", "form", "values", "items"), WHOLE.values(), ids=WHOLE)
def test_lines(kind, form, values, items):
    assert items == decode(kind, form, values, whole=True)
