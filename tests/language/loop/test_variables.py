from __future__ import annotations

import ast

import pytest

from anabranch.language.loop.variables import flow_of

# code: what may be read from before, and what is surely assigned behind it
CASES = {
    "b = a": ("a", "b"),
    "a = a + 1": ("a", "a"),
    "a += 1": ("a", "a"),
    "a: int = 1": ("", "a"),
    "a: int": ("", ""),
    "a[i] = b": ("a b i", ""),
    "a.x = b": ("a b", ""),
    "(a, *b), c = d": ("d", "a b c"),
    "if c:\n    a = 1\nb = a": ("a c", "b"),
    "if c:\n    a = 1\nelse:\n    a = 2\nb = a": ("c", "a b"),
    "if c:\n    raise e\nelse:\n    a = 2": ("c e", "a"),
    "for a in b:\n    c = a\nd = c": ("b c", "d"),
    "while a:\n    b = 1": ("a", ""),
    "while True:\n    a = f\n    if a:\n        break\nb = a": ("f", "a b"),
    "while True:\n    if f:\n        break\n    a = 1\nb = a": ("a f", "b"),
    "with f as a:\n    b = a": ("f", "a b"),
    "with suppress(f):\n    b = 1": ("f suppress", ""),
    "try:\n    a = f\nexcept E:\n    b = 1\nc = a": ("E a f", "c"),
    "try:\n    a = f\nexcept E:\n    raise\nc = a": ("E f", "a c"),
    "try:\n    a = f\nexcept E as e:\n    a = e\nb = e": ("E e f", "a b"),
    "try:\n    f\nfinally:\n    a = 1": ("f", "a"),
    "match a:\n    case [b, *c]:\n        d = b\n    case _:\n        d = 1": (
        "a",
        "d",
    ),
    "match a:\n    case 1:\n        d = 1": ("a", ""),
    "a = b = (c := d)": ("d", "a b c"),
    "a = b and (c := d)": ("b d", "a"),
    "a = (c := 1) if b else d": ("b d", "a"),
    "a = [b for b in c if d]": ("c d", "a"),
    "a = [a for a in a]": ("a", "a"),
    "a = {(b := c) for c in d}": ("d", "a"),
    "a = lambda b, c=d: b + c + e": ("d e", "a"),
    "def a(b):\n    return b + c": ("c", "a"),
    "class a(b):\n    c = d": ("b d", "a"),
    "import a.b, c as d": ("", "a d"),
    "del a": ("a", ""),
    "a = 1\ndel a\nb = a": ("a", "b"),
    "assert a, b": ("a b", ""),
    "f(a, *b, c=d, **e)": ("a b d e f", ""),
    'a = f"{b:{c}}"': ("b c", "a"),
}


@pytest.mark.parametrize("code", CASES)
def test_what_is_read_from_before_and_what_is_surely_assigned(code):
    reads, sure = CASES[code]

    found = flow_of(ast.parse(code).body)

    assert (reads.split(), sure.split()) == (sorted(found.reads), sorted(found.sure))


def test_behind_a_return_there_is_nothing():
    assert flow_of(ast.parse("a = 1\nraise b\nc = d").body).sure is None


@pytest.mark.parametrize(
    ("code", "captured"),
    {
        "f = lambda x: x + a": "a",
        "g = (x * a for x in b)": "a",
        "s = sum(x * a for x in b)": "",
        "s = sorted(b, key=lambda x: x[a])": "",
        "f = map(lambda x: x + a, b)": "a",
        "c = [x * a for x in b]": "",
    }.items(),
)
def test_functions_capture_what_they_use_later(code, captured):
    assert captured.split() == sorted(flow_of(ast.parse(code).body).captured)


def test_an_expression_has_a_flow_too():
    found = flow_of(ast.parse("(a := b) + a + c").body)

    assert ["b", "c"] == sorted(found.reads)
    assert ["a"] == sorted(found.writes)
