"""Messages as rows: each is one, the bad ones are named, the others stay."""

from typing import NamedTuple

import pytest

from anabranch.connectors.socket import RowText
from anabranch.operators.sources import Socket


class Pair(NamedTuple):
    a: str
    b: int


CASES = {
    "json": (int, "jsonl", [b"1", b"2"], [(1, 10), (2, 11)], []),
    "json with a bad one": (int, "jsonl", [b"1", b"x", b"3"], [(1, 10), (3, 12)], [11]),
    "json over lines": (int, "jsonl", [b"1", b"\n2\n"], [(1, 10), (2, 11)], []),
    "two values in one": (int, "jsonl", [b"1\n2", b"3"], [(3, 11)], [10]),
    "an empty message": (int, "jsonl", [b"", b"3"], [(3, 11)], [10]),
    "no value at all": (int, "jsonl", [None, b"3"], [(3, 11)], [10]),
    "text": (str, "text", [b"a", b"", b"c"], [("a", 10), ("", 11), ("c", 12)], []),
    "text that is not UTF-8": (str, "text", [b"a", b"\xff"], [("a", 10)], [11]),
    "csv": (Pair, "csv", [b"a,1", b"b,2\n"], [(("a", 1), 10), (("b", 2), 11)], []),
    "csv with a newline": (Pair, "csv", [b'"a\nb",1'], [(("a\nb", 1), 10)], []),
    "csv with an open quote": (
        Pair,
        "csv",
        [b'"a,1', b"b,2"],
        [(("b", 2), 11)],
        [10],
    ),
    "csv of two rows": (Pair, "csv", [b"a,1\nb,2"], [], [10]),
}


@pytest.mark.parametrize(
    ("kind", "form", "values", "items", "bad"), CASES.values(), ids=CASES
)
def test_messages(kind, form, values, items, bad):
    text = RowText(Socket("", 0, kind, form), "here")
    refused = []
    numbers = range(10, 10 + len(values))

    found = text.messages(values, numbers, lambda one: refused.append(one.at.row))

    assert items == found
    assert bad == refused
