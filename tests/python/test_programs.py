"""Programs as users write them, with the code that Python or an engine runs unasked.

Each stands in a text file under a sentence. It maps `operator` over `ITEMS`, or builds a
stream in `program`; the operator called `it` is the one that counts.
"""

from pathlib import Path

import pytest

import anabranch as ab
from anabranch.language.drafts import build_graph
from anabranch.python.analyze import analyze
from tests.python.test_snippets import COMMON, module_of

HEADER = f"{COMMON}\nfrom anabranch import Operator\n"


def programs(name):
    text = Path(__file__).with_name(f"programs_{name}.txt").read_text()
    blocks = (block.strip("\n").split("\n", 1) for block in text.split("\n---\n"))
    return {title.removeprefix("# "): program for title, program in blocks}


REFUSED = programs("refused")
ACCEPTED = programs("accepted")


def traits_of(program, folder):
    module = module_of(f"{HEADER}{program}\n", folder)
    if hasattr(module, "program"):
        stream = module.program(ab)
    else:
        stream = ab.from_iterable(module.ITEMS).map(module.operator, name="it")
    return analyze(build_graph([stream.to_list()]))["it"]


@pytest.mark.parametrize("program", REFUSED.values(), ids=REFUSED)
def test_what_runs_unasked_is_found(program, tmp_path):
    assert traits_of(program, tmp_path).effects


@pytest.mark.parametrize("program", ACCEPTED.values(), ids=ACCEPTED)
def test_what_has_no_effect_is_accepted(program, tmp_path):
    traits = traits_of(program, tmp_path)

    assert not traits.effects, traits.evidence
