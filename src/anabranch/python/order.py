"""Loops whose result is independent of the order in which they take their elements.

Such a loop counts, or looks for an element: it adds to variables, assigns constants to
them or returns one constant, whichever element is found first.
"""

from __future__ import annotations

from anabranch.python import ir

_LEAVING = (ir.Return, ir.Break)
_REFUSED = (ir.Yield, ir.Raise, ir.Delete, ir.Try, ir.While, ir.For)


def hides_order(one: ir.For, code: ir.Function) -> bool:
    """Tell whether the order of a statement's iterations does not show.

    What it changes apart from variables, and whether its sums are exact, is checked
    where it is executed.
    """
    if one.into is not None or code.generator:
        return False
    inside = [*ir.walk(one.body)]
    if any(isinstance(each, _REFUSED) for each in inside):
        return False
    given = [each for each in inside if isinstance(each, ir.Return)]
    if not _is_same_constant([each.value for each in given], code):
        return False
    breaks = [each for each in inside if isinstance(each, ir.Break)]
    if len(breaks) > 1 or (breaks and given):
        return False  # which of them comes first depends on the order
    leaves = any(isinstance(each, _LEAVING) for each in inside)
    stores: dict[str, list[ir.Store]] = {}
    for each in inside:
        if isinstance(each, ir.Store):
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


def _goes_with(leaving: ir.Break, stores: list[ir.Store], block: ir.Block) -> bool:
    """Tell whether stores are where the loop is left, and nowhere else.

    An element that is not reached any more could have made another one.
    """
    if leaving in block:
        return all(each in block for each in stores)
    return any(
        _goes_with(leaving, stores, inner)
        for one in block
        for inner in ir.blocks_of(one)
    )


def _values(stores: list[ir.Store]) -> list[ir.Register]:
    return [each.value for each in stores]


def _is_same_constant(registers: list[ir.Register], code: ir.Function) -> bool:
    """Tell whether all registers hold one constant."""
    made = [code.maker_of(each) for each in registers]
    constants = {
        (type(each.value), repr(each.value))
        for each in made
        if isinstance(each, ir.Const)
    }
    return all(isinstance(each, ir.Const) for each in made) and len(constants) <= 1


def _is_read(name: str, block: list[ir.Instruction]) -> bool:
    return any(isinstance(each, ir.LoadName) and each.name == name for each in block)


def _is_kept_inside(name: str, one: ir.For, code: ir.Function) -> bool:
    """Tell whether each iteration assigns a variable before any use of it."""
    inside = [*ir.walk(one.body)]
    uses = [
        each
        for each in inside
        if isinstance(each, ir.LoadName | ir.Store) and each.name == name
    ]
    loads = [e for e in ir.walk(code.body) if isinstance(e, ir.LoadName)]
    within = set(map(id, inside))
    return (
        uses[0] in one.body
        and isinstance(uses[0], ir.Store)
        and name not in code.captured
        and uses[0].scope == "local"
        and all(id(each) in within for each in loads if each.name == name)
    )


def _is_sum(
    name: str,
    stores: list[ir.Store],
    block: list[ir.Instruction],
    code: ir.Function,
) -> bool:
    """Tell whether a variable is only added to."""
    loads = [e for e in block if isinstance(e, ir.LoadName) and e.name == name]
    lefts = set()
    for each in stores:
        made = code.maker_of(each.value)
        if not isinstance(made, ir.Binary) or not made.in_place or made.op != "+":
            return False
        lefts.add(made.left)
    return each.scope == "local" and {each.target for each in loads} == lefts
