from anabranch.connectors.files.rows import Position, TextParser


def parsed(data):
    bad = []
    return list(TextParser().parse(data, Position(1, 1), bad.append)), bad


def test_every_line_is_an_item_without_its_end():
    """
    Blank lines count; a carriage return elsewhere belongs to the line.
    """
    numbered, bad = parsed(b"a\r\n\nb\rc\n")

    assert [("a", 1), ("", 2), ("b\rc", 3)] == numbered
    assert [] == bad


def test_the_last_line_may_lack_its_newline():
    assert [("a", 1), ("b", 2)] == parsed(b"a\nb")[0]


def test_a_line_that_is_not_utf8_is_refused_alone():
    numbered, (bad,) = parsed(b"a\n\xe9\nb\n")

    assert [("a", 1), ("b", 3)] == numbered
    assert (Position(2, 2), b"\xe9") == (bad.at, bad.raw)


def test_a_return_alone_at_the_end_is_a_blank_last_line():
    """
    Whoever counts lines counts it too, so it is an item.
    """
    found = TextParser().parse(b"one\n\r", Position(1, 1), print)

    assert [("one", 1), ("", 2)] == list(found)
