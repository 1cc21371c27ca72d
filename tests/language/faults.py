"""Programs that are refused, with their lines marked, and programs that are accepted.

A program is a function that returns a sink or several. In a refused one the line of
each fault is marked with the word `cause` in a comment.
"""

import inspect

from anabranch.language.drafts import Result, build_graph
from anabranch.language.validate import faults_of


def faults_in(program):
    made = program()
    return faults_of(build_graph([made] if isinstance(made, Result) else made))


def assert_refused(program, *texts):
    """
    The faults are those that `texts` describe, on the marked lines, in order.
    """
    lines, first = inspect.getsourcelines(program)
    marked = [first + n for n, line in enumerate(lines) if line.endswith("# cause\n")]
    faults = faults_in(program)

    assert marked == [fault.line for fault in faults], list(map(str, faults))
    for text, fault in zip(texts, faults, strict=True):
        assert text in f"{fault.text}; {fault.fix}"


def assert_accepted(program):
    assert [] == list(map(str, faults_in(program)))
