"""Facts about loops and generators that are read off their statements.

A loop hides the order in which it takes its elements if it counts, or looks for an
element: it adds to variables, assigns constants to them or returns one constant,
whichever element is found first.

A generator may still reach what it has yielded. In ::

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
    Binary,
    Block,
    Break,
    Const,
    Delete,
    For,
    Function,
    Instruction,
    LoadName,
    Raise,
    Register,
    Return,
    Store,
    Try,
    While,
    Yield,
    blocks_of,
    walk,
)

_LEAVING = (Return, Break)
_REFUSED = (Yield, Raise, Delete, Try, While, For)


def hides_order(one: For, code: Function) -> bool:
    """Tell whether the order of a statement's iterations does not show.

    What it changes apart from variables, and whether its sums are exact, is checked
    where it is executed.
    """
    if one.into is not None or code.generator:
        return False
    inside = [*walk(one.body)]
    if any(isinstance(each, _REFUSED) for each in inside):
        return False
    given = [each for each in inside if isinstance(each, Return)]
    if not _is_same_constant([each.value for each in given], code):
        return False
    breaks = [each for each in inside if isinstance(each, Break)]
    if len(breaks) > 1 or (breaks and given):
        return False  # which of them comes first depends on the order
    leaves = any(isinstance(each, _LEAVING) for each in inside)
    stores: dict[str, list[Store]] = {}
    for each in inside:
        if isinstance(each, Store):
            stores.setdefault(each.name, []).append(each)
    return all(
        _is_kept_inside(name, one, code)
        or (
            not _is_read(name, inside)
            and _is_same_constant(_values(found), code)
            and all(_goes_with(each, found, one.body) for each in breaks)
        )
        or (not leaves and _is_sum(name, found, inside, code))
        for name, found in stores.items()
    )


def _goes_with(leaving: Break, stores: list[Store], block: Block) -> bool:
    """Tell whether stores are where the loop is left, and nowhere else.

    An element that is not reached any more could have made another one.
    """
    if leaving in block:
        return all(each in block for each in stores)
    return any(
        _goes_with(leaving, stores, inner) for one in block for inner in blocks_of(one)
    )


def _values(stores: list[Store]) -> list[Register]:
    return [each.value for each in stores]


def _is_same_constant(registers: list[Register], code: Function) -> bool:
    """Tell whether all registers hold one constant."""
    made = [code.maker_of(each) for each in registers]
    constants = {
        (type(each.value), repr(each.value)) for each in made if isinstance(each, Const)
    }
    return all(isinstance(each, Const) for each in made) and len(constants) <= 1


def _is_read(name: str, block: list[Instruction]) -> bool:
    return any(isinstance(each, LoadName) and each.name == name for each in block)


def _is_kept_inside(name: str, one: For, code: Function) -> bool:
    """Tell whether each iteration assigns a variable before any use of it."""
    inside = [*walk(one.body)]
    uses = [
        each
        for each in inside
        if isinstance(each, LoadName | Store) and each.name == name
    ]
    loads = [e for e in walk(code.body) if isinstance(e, LoadName)]
    within = set(map(id, inside))
    return (
        uses[0] in one.body
        and isinstance(uses[0], Store)
        and name not in code.captured
        and uses[0].scope == "local"
        and all(id(each) in within for each in loads if each.name == name)
    )


def _is_sum(
    name: str,
    stores: list[Store],
    block: list[Instruction],
    code: Function,
) -> bool:
    """Tell whether a variable is only added to."""
    loads = [e for e in block if isinstance(e, LoadName) and e.name == name]
    lefts = set()
    for each in stores:
        made = code.maker_of(each.value)
        if not isinstance(made, Binary) or not made.in_place or made.op != "+":
            return False
        lefts.add(made.left)
    return each.scope == "local" and {each.target for each in loads} == lefts


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
