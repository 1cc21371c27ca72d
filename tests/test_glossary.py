"""One word per thing: docs/glossary.md names the words, and this holds the code to them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "anabranch"
GLOSSARY = ROOT / "docs" / "glossary.md"
FILES = sorted(PACKAGE.rglob("*.py"))

# File names that occur in several folders: each folder's part of one thing.
SHARED_STEMS = {
    # a family of operators and the checks of its programs
    *("files", "rates", "windows"),
    # the same part of several engines, or of an engine and what steers it
    *("control", "engine", "layout", "live", "sinks", "states"),
    # one concept where it is written or planned, and where it runs
    *("program", "sources", "values"),
}

# Functions whose first word is a participle or looks like one, with the reason.
PARTICIPLES = {
    "_cached_of": "names a pickled value of functools",
    "_fused_operators_stay_together": "a rule of plans is a sentence",
    "_named": "names a pickled value of a script",
    "ended": "public: a live source says whether it has",
    "offered": "public: a source with an offered load",
    "recorded": "public: a load that was recorded",
}
IRREGULAR = {
    *("begun", "broken", "built", "chosen", "done", "drawn", "fed", "found", "given"),
    *("gone", "grown", "held", "kept", "known", "left", "lost", "made", "met", "ran"),
    *("said", "seen", "sent", "shown", "sunk", "taken", "told", "written"),
}
VERBS = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed"}
PROPERTY = {"property", "cached_property"}

CODE = re.compile(r"`[^`]*`")
TITLE = re.compile(r"(?<!\*)\*[^*\n]+\*(?!\*)")
EXAMPLE = re.compile(r"^\s*(>>>|\.\.\.).*$", re.MULTILINE)
# What a benchmark measured and what papers say is quoted as it is.
QUOTED_PAGES = {"results.md"}


def entries(text: str) -> list[tuple[str, list[str]]]:
    """Return the words of a glossary, each with its banned synonyms."""
    rows = [line.strip("| ").split("|") for line in text.splitlines() if "|" in line]
    return [
        (word.strip(), [w.strip() for w in banned.split(",") if w.strip()])
        for word, _, banned in (row if len(row) > 2 else [*row, ""] for row in rows[2:])
    ]


ENTRIES = entries(GLOSSARY.read_text(encoding="utf-8"))
BANNED = {synonym: word for word, banned in ENTRIES for synonym in banned}


def banned_in(text: str, banned: Iterable[str] = BANNED) -> list[str]:
    """Return the banned words of a text, outside of code, examples and titles."""
    prose = TITLE.sub("", CODE.sub("", EXAMPLE.sub("", text)))
    return [word for word in banned if _whole(word).search(prose)]


@cache
def _whole(word: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, word.split()))
    return re.compile(rf"\b{words}s?\b", re.IGNORECASE)


@cache
def nodes_of(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and messages of a file: its strings of several words."""
    for node in nodes_of(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value if " " in node.value else ""


def is_participle(name: str) -> bool:
    """Tell whether the first word of a name is a past participle."""
    word = name.strip("_").split("_")[0]
    return word in IRREGULAR or (word.endswith("ed") and word not in VERBS)


def _name_of(decorator: ast.AST) -> str:
    return str(getattr(decorator, "id", getattr(decorator, "attr", "")))


def participles_of(source: str) -> list[str]:
    """Return the functions that a participle names; properties may be adjectives."""
    return [
        node.name
        for node in nodes_of(source)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and is_participle(node.name)
        and PROPERTY.isdisjoint(map(_name_of, node.decorator_list))
    ]


def test_the_glossary_is_in_alphabetical_order_and_has_each_word_once():
    words = [word for word, _ in ENTRIES]

    assert sorted(set(words)) == words


def test_no_word_of_the_glossary_is_banned_by_it():
    assert set() == {word for word, _ in ENTRIES} & set(BANNED)


def test_no_two_classes_have_one_name():
    places = defaultdict(list)
    for path in FILES:
        module, *_ = nodes_of(path.read_text(encoding="utf-8"))
        for node in module.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    double = {name: found for name, found in places.items() if len(found) > 1}

    assert {} == double


def test_no_two_files_have_one_name():
    """
    A file of the command line has the name of its command.
    """
    places = defaultdict(list)
    for path in FILES:
        if path.stem != "__init__" and path.parent.name != "cli":
            places[path.stem].append(str(path.relative_to(PACKAGE)))
    double = {stem: found for stem, found in places.items() if len(found) > 1}

    assert {} == {s: found for s, found in double.items() if s not in SHARED_STEMS}


def test_functions_are_verbs():
    found = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in FILES
        for name in participles_of(path.read_text(encoding="utf-8"))
        if name not in PARTICIPLES
    }

    assert set() == found


PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((PACKAGE / "dashboard").rglob("*.html")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_the_words_of_the_glossary(page):
    if page == GLOSSARY or page.name in QUOTED_PAGES:
        return
    lines = page.read_text(encoding="utf-8").splitlines()

    assert [] == [(n, w) for n, line in enumerate(lines, 1) for w in banned_in(line)]


def test_docstrings_and_messages_use_the_words_of_the_glossary():
    found = {
        f"{path.relative_to(PACKAGE)}:{line}: {word}; write {BANNED[word]}"
        for path in FILES
        for line, text in texts_of(path.read_text(encoding="utf-8"))
        for word in banned_in(text)
    }

    assert set() == found


CASES = {
    "a banned word is found": ("two channels", ["channel"]),
    "at the beginning of a sentence too": ("Channels wait.", ["channel"]),
    "across lines": ("a processing\n element", ["processing element"]),
    "not within another word": ("channelled", []),
    "not in code": ("the number `channel`", []),
    "not in the title of a paper": ("see *Channels of Rivers*", []),
    "not in an example": (">>> channel = 1", []),
    "a word of the glossary is fine": ("two replicas", []),
}


@pytest.mark.parametrize(("text", "found"), CASES.values(), ids=CASES)
def test_banned_words(text, found):
    assert found == banned_in(text, ["channel", "processing element"])


NAMES = {
    "an irregular participle": ("def _ran(): ...", ["_ran"]),
    "a regular one": ("def divided_by(n): ...", ["divided_by"]),
    "a verb": ("def divide(): ...", []),
    "a verb that looks like one": ("def feed(): ...", []),
    "a property is an adjective": (
        "class A:\n @property\n def ended(self): ...",
        [],
    ),
    "a method": ("class A:\n def ended(self): ...", ["ended"]),
}


@pytest.mark.parametrize(("source", "found"), NAMES.values(), ids=NAMES)
def test_participles(source, found):
    assert found == participles_of(source)
