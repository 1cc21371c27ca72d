"""Every file in `cases` holds one function; its first comment says what must be found.

    # KIND [by KEY] | STATE [at LINE][: TEXT] | push LEAST..MOST | forwards NAMES

KIND is the operator that the function is put into, STATE what it must be found to be,
for `global` with the line that forces it and words of the reason. `push` and `forwards`
may be left out. A type called `Item` is the type of the stream.
"""

import importlib.util
import re
from pathlib import Path

import pytest

from anabranch.language.drafts import build_graph
from anabranch.language.sources import from_iterable
from anabranch.python.analyze import analyze

CASES = sorted(Path(__file__).with_name("cases").glob("*.py"))


def load(path):
    spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def put_into(kind, key, module):
    stream = from_iterable(iter(()), getattr(module, "Item", None)).key_by(*key)
    operator = module.operator
    match kind:
        case "scan":
            return stream.scan(operator, module.initial, name="it")
        case "aggregate":
            return stream.window(count=2).aggregate(operator, name="it")
        case "block":
            return stream.block(operator, pop=1, push=1, name="it")
        case "split":
            return stream.split(operator, 2, name="it")[0]
        case "join":
            other = from_iterable((), getattr(module, "Item", None))
            windows = {"left_window": 2, "right_window": 2}
            return stream.join(other, on=key, into=operator, **windows, name="it")
    return getattr(stream, kind)(operator, name="it")


def push_text(push):
    return f"{push.least}..{'' if push.most is None else push.most}"


def forwards_text(forwards):
    return "all" if forwards is None else ", ".join(sorted(forwards))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_first_comment_says_what_is_found(path):
    first, *rest = path.read_text().splitlines()[0].removeprefix("# ").split(" | ")
    kind, _, key = first.partition(" by ")
    stream = put_into(kind, key.split(", ") if key else [], load(path))

    traits = analyze(build_graph([stream.to_list()]))["it"]

    state, line, text = re.fullmatch(
        r"(\w+)(?: at (\d+))?(?:: (.*))?", rest[0]
    ).groups()
    reason = next(e for e in traits.evidence if e.trait == "state")
    assert state == traits.state, reason
    if line is not None:
        assert (int(line), path.name) == (reason.line, Path(reason.file).name), reason
    assert text is None or text in reason.text, reason
    for claim in rest[1:]:
        trait, _, expected = claim.partition(" ")
        shown = {
            "push": push_text(traits.push),
            "forwards": forwards_text(traits.forwards),
        }
        assert expected.strip() == shown[trait]


def test_there_are_as_many_refusals_as_acceptances():
    states = [path.read_text().split(" | ")[1] for path in CASES]
    refused = sum(state.startswith("global") for state in states)

    assert 90 <= len(states)
    assert 0.4 <= refused / len(states) <= 0.6
