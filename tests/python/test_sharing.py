"""Who shares what is found by looking only at those that have something in common."""

from anabranch.python.sharing import find_sharing
from anabranch.python.values import Findings, Place

AT = Place("program.py", 1)


class Nobody:
    """Stands for functions that were not analysed: there are none."""

    def may_change(self, read):
        return False

    def may_read(self, written):
        return False


def writer_of(target):
    found = Findings()
    found.change(target, "changes", AT)
    return found


def reader_of(name, target):
    found = Findings()
    found.read(name, {}, target, AT)
    return found


def test_a_reader_of_what_another_part_changes_is_found():
    table = []
    findings = {"writer": [writer_of(table)], "reader": [reader_of("table", table)]}

    found = find_sharing(findings, Nobody())

    assert [("reader", "writer")] == [(each.reader, each.writer) for each in found]


def test_code_that_cannot_be_read_may_see_everything():
    findings = {
        "writer": [writer_of([])],
        "blind": [Findings(writes_anything=AT)],
    }

    found = find_sharing(findings, Nobody())

    assert ("blind", "writer") in [(each.reader, each.writer) for each in found]


class Counted(dict):
    """The globals that an operator touches; counts how often somebody looks at them."""

    looks = 0

    def keys(self):
        Counted.looks += 1
        return super().keys()


def looks_among(operators):
    """Return how often findings are compared among operators with a list each."""
    Counted.looks = 0
    tables = [[n] for n in range(operators)]
    findings = {f"map{n}": [writer_of(each)] for n, each in enumerate(tables)}
    for [found] in findings.values():
        found.touched = Counted(found.touched)
    assert () == find_sharing(findings, Nobody())
    return Counted.looks


def test_the_work_grows_with_the_operators_and_not_with_their_pairs():
    assert looks_among(400) <= 4 * looks_among(100) + 400
