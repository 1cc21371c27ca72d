"""The names and loops through which a generator still reaches what it has yielded.

In ::

    row = {}
    for part in parts:
        row["part"] = part
        yield row

`row` is the same object in every turn; were it assigned at the beginning of the turn,
what was yielded before could no longer be reached through it. An iterator that a loop
reads may also return to what it gave, and change it, when it is asked for the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

from anabranch.python.ir import (
    Block,
    For,
    Function,
    Instruction,
    LoadName,
    Register,
    Store,
    While,
    Yield,
    blocks_of,
    walk,
)

_known: WeakKeyDictionary[Function, tuple[LoadName, ...]] = WeakKeyDictionary()


def find_kept(function: Function) -> tuple[LoadName, ...]:
    """Return the reads of names that may come after a yield without an assignment
    between.

    Whatever such a name reaches, what was yielded included, can be changed then.
    """
    if function not in _known:
        _known[function] = tuple(_find_kept(function))
    return _known[function]


def find_read(function: Function) -> Iterator[Register]:
    """Yield the iterables that are read on after a yield: those of the loops around it,
    and of `yield from`.
    """
    for one in walk(function.body):
        match one:
            case For(iterable=iterable, body=body):
                if any(isinstance(each, Yield) for each in walk(body)):
                    yield iterable
            case Yield(value=value, delegates=True):
                yield value


def _find_kept(function: Function) -> Iterator[LoadName]:
    every = [*walk(function.body)]
    yields = [one for one in every if isinstance(one, Yield)]
    turns = [_turn_of(function.body, one) or function.body for one in yields]
    reads: dict[str, list[LoadName]] = {}
    for one in every if yields else ():
        if isinstance(one, LoadName):
            reads.setdefault(one.name, []).append(one)
    for loads in reads.values():
        if not all(
            _is_made_anew(function, loads[0], given, turn)
            for given, turn in zip(yields, turns, strict=True)
        ):
            yield from loads


def _turn_of(block: Block, given: Yield) -> Block | None:
    """Return the blocks of the innermost loop around an instruction; None if none."""
    for one in block:
        for inner in blocks_of(one):
            if given in walk(inner):
                found = _turn_of(inner, given)
                is_loop = isinstance(one, For | While)
                return sum(blocks_of(one), ()) if is_loop and found is None else found
    return None


def _is_made_anew(
    function: Function, load: LoadName, given: Yield, turn: Block
) -> bool:
    """Tell whether a name is assigned before it is read again after a yield."""
    name = load.name
    if load.scope != "local" or name in function.captured:
        return False
    within = [*walk(turn)]
    at = within.index(given)
    if _count_reads(name, within[at:]):
        return False
    if turn is function.body:
        return True
    elsewhere = _count_reads(name, walk(function.body)) - _count_reads(name, within)
    return not elsewhere and _is_stored_first(turn, name, given)


def _is_stored_first(turn: Block, name: str, given: Yield) -> bool:
    """Tell whether each turn of a loop assigns a name before it reads it."""
    for one in turn:
        if isinstance(one, Store) and one.name == name:
            return True
        inside = [one, *(each for block in blocks_of(one) for each in walk(block))]
        if given in inside or _count_reads(name, inside):
            return False
    return False


def _count_reads(name: str, instructions: Iterable[Instruction]) -> int:
    return sum(isinstance(one, LoadName) and one.name == name for one in instructions)
