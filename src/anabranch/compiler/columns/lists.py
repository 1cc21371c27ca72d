"""Lists in kernel text: arrays that grow, and views of a window's items.

A list whose length is known is a `Group`, which costs nothing. Where a list grows in a
loop, or is longer on some path, the function is translated once more with a `ListValue`
in its place: an array for each scalar of an element, and their number. It is the same
list under all its names, as in Python. Elements never change, and it cannot grow while
it is gone through.

A view is what `zip`, `enumerate`, `reversed` or a slice gives: it reads the elements of
a list, or of a window, at an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from anabranch.compiler.columns.read_parts import read_item
from anabranch.compiler.columns.values import (
    Group,
    Items,
    Iteration,
    Known,
    ListValue,
    ListView,
    Scalar,
    Value,
    elements_of,
    join,
    leaves,
    rebuild,
    shape_of,
)
from anabranch.plan.column_kernels import ColumnShape as Shape

if TYPE_CHECKING:
    from anabranch.compiler.columns.translate import FunctionText

_HEAD = '@njit(nogil=True, error_model="numpy", fastmath=False)\n'
GROW = (
    _HEAD
    + """def grow(a):
    b = np.empty(2 * a.shape[0], a.dtype)
    b[: a.shape[0]] = a
    return b
"""
)
# Merge sort keeps the order of equal elements, as Python does: 0.0 and -0.0 are equal.
SORT = (
    _HEAD
    + """def sort_places(keys, order):
    n = order.shape[0]
    other = np.empty(n, np.int64)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle = min(low + width, n)
            high = min(low + 2 * width, n)
            i = low
            j = middle
            for k in range(low, high):
                if i < middle and (
                    j >= high or not (keys[order[j]] < keys[order[i]])
                ):
                    other[k] = order[i]
                    i = i + 1
                else:
                    other[k] = order[j]
                    j = j + 1
        order, other = other, order
        width = 2 * width
    return order
"""
)
_FIRST_ROOM = 16


class WiderListError(Exception):
    """A list must be made with room for other elements, or for more of them."""

    def __init__(self, site: int, shape: Shape | None) -> None:
        super().__init__(site)
        self.site = site
        self.shape = shape


def make_list(
    this: FunctionText, shape: Shape | None, values: Sequence[Value], site: int = 0
) -> ListValue:
    """Return a new list; if the shape of its elements is unknown, it has none yet."""
    made = ListValue(this.module.new("l"), shape, site)
    for name, kind in made.arrays():
        this.emit(f"{name} = np.empty({_FIRST_ROOM}, np.{_DTYPES.get(kind, 'int64')})")
    this.emit(f"{made.name}_n = 0")
    for value in values:
        append(this, made, value)
    return made


_DTYPES = {"float": "float64", "bool": "bool_"}


def append(this: FunctionText, container: ListValue, value: Value) -> None:
    """Append an element; all names of the list see it."""
    if container.name in this.reading:
        this.refuse("adds to a list while it goes through it")
    found = shape_of(value)
    shape = found if container.shape is None else join(container.shape, found)
    if shape != container.shape:
        if not container.site:
            this.refuse("adds values of another type to a list")
        raise WiderListError(container.site, shape)
    names = container.arrays()
    count = f"{container.name}_n"
    if names:
        this.module.helper(GROW)
        this.emit(f"if {count} >= {names[0][0]}.shape[0]:")
        with this.deeper():
            for name, _ in names:
                this.emit(f"{name} = grow({name})")
    texts = []
    for one, scalar in zip(leaves(value, shape), shape.scalars(), strict=True):
        texts += this.list_stored(one, scalar)
    for (name, _), text in zip(names, texts, strict=True):
        this.emit(f"{name}[{count}] = {text}")
    this.emit(f"{count} = {count} + 1")


def extend_list(this: FunctionText, container: ListValue, added: Value) -> None:
    """Append all elements of another value."""
    view = find_view(this, added)
    if view is None:
        for value in elements_of(added):
            append(this, container, value)
        return
    if container.name in view.lists:  # its number of elements is taken before
        this.refuse("extends a list by itself")
    at = this.module.new("v")
    this.emit(f"for {at} in range({view.count}):")
    with this.deeper():
        append(this, container, view.read(at))


def find_view(this: FunctionText, value: Value) -> ListView | None:
    """Return the elements of a value as they are now; None if they are not many."""
    match value:
        case ListView():
            return value
        case Iteration(view=ListView() as view):
            return view
        case Items():
            return ListView(
                Scalar(("int",), value.count).text,
                lambda at: read_item(value, at),
            )
        case ListValue():
            count = this.variable("int", f"{value.name}_n").text
            shape, own = value.shape, frozenset([value.name])
            if shape is None:
                return ListView(count, lambda _: this.give_up(), own)
            return ListView(count, lambda at: _read(this, value, shape, at), own)
    return None


def _read(this: FunctionText, value: ListValue, shape: Shape, at: str) -> Value:
    arrays = iter(value.arrays())
    scalars: list[Value] = []
    for one in shape.scalars():
        if one.kinds == ("none",):
            scalars.append(Known(None))
            continue
        made = Scalar(one.kinds, this.module.new("v"), type=one.type)
        for text in made.texts:
            this.emit(f"{text} = {next(arrays)[0]}[{at}]")
        scalars.append(made)
    return rebuild(shape, iter(scalars))


@contextmanager
def reading(this: FunctionText, view: ListView) -> Iterator[None]:
    """Refuse to let the lists of a view grow meanwhile."""
    before = this.reading
    this.reading = before | view.lists
    try:
        yield
    finally:
        this.reading = before


def go_through_view(
    this: FunctionText, view: ListView, action: Callable[[Value], None]
) -> None:
    """Do something with each element."""
    at = this.module.new("v")
    this.emit(f"for {at} in range({view.count}):")
    with this.deeper(), reading(this, view):
        action(view.read(at))


def read_element_of_view(this: FunctionText, view: ListView, index: Value) -> Value:
    """Return an element, or a part of a list between places that are known."""
    if isinstance(index, Known) and isinstance(index.value, slice):
        return _cut(this, view, index.value)
    at = this.text(this.whole(index))
    this.check(f"({at} >= {view.count}) or ({at} < -{view.count})")
    place = this.variable("int", f"({at} if {at} >= 0 else {at} + {view.count})")
    return view.read(place.text)


def _cut(this: FunctionText, view: ListView, cut: slice) -> ListView:
    bounds = (cut.start, cut.stop)
    whole = all(bound is None or type(bound) is int for bound in bounds)
    if cut.step == -1 and bounds == (None, None):
        return reverse(view)
    if not whole or cut.step not in (None, 1) or type(cut.step) is bool:
        this.refuse("takes a part of a list with other steps than 1")
    first, last = (
        default if bound is None else _clip(this, bound, view.count)
        for bound, default in zip(bounds, ("0", view.count), strict=True)
    )
    count = this.variable("int", f"max({last} - {first}, 0)").text
    return ListView(count, lambda at: view.read(f"({first} + {at})"), view.lists)


def _clip(this: FunctionText, bound: int, count: str) -> str:
    text = f"min({bound}, {count})" if bound >= 0 else f"max({count} - {-bound}, 0)"
    return this.variable("int", text).text


def reverse(view: ListView) -> ListView:
    """Return the elements from the last to the first."""
    last = f"{view.count} - 1"
    return ListView(view.count, lambda at: view.read(f"({last} - {at})"), view.lists)


def zip_views(this: FunctionText, views: Sequence[ListView]) -> ListView:
    """Return tuples of elements, as many as there are in the shortest."""
    counts = [view.count for view in views]
    text = f"min({', '.join(counts)})" if len(counts) > 1 else counts[0]
    count = this.variable("int", text).text
    lists = frozenset[str]().union(*(view.lists for view in views))
    return ListView(
        count, lambda at: Group(tuple(view.read(at) for view in views)), lists
    )


def number_view(view: ListView, first: int) -> ListView:
    """Return pairs of a number and an element."""

    def read(at: str) -> Value:
        number = f"({at} + {first})" if first else at
        return Group((Scalar(("int",), number), view.read(at)))

    return ListView(view.count, read, view.lists)


def sort_view(
    this: FunctionText,
    view: ListView,
    find_key: Callable[[Value], Value],
    *,
    falls: bool = False,
) -> ListView:
    """Return a list in order of a key: a value, or a tuple of such.

    The parts of a key sort one after the other, the last first: sorting keeps the order
    of equal elements. A list that falls is sorted from its end.
    """
    kept, this.lines = this.lines, []
    try:
        shapes = list(shape_of(find_key(view.read("0"))).scalars())
    finally:
        this.lines = kept
    kinds = [kind for one in shapes for kind in one.kinds]
    if len(kinds) > len(shapes) or {"none", "enum"} & {*kinds}:
        this.refuse("sorts by values that are not all of one kind")
    count, at = view.count, this.module.new("v")
    keys = [this.module.new("v") for _ in shapes]
    for name, kind in zip(keys, kinds, strict=True):
        dtype = "float64" if kind == "float" else "int64"
        this.emit(f"{name} = np.empty({count}, np.{dtype})")
    this.emit(f"for {at} in range({count}):")
    with this.deeper(), reading(this, view):
        found = find_key(view.read(f"({count} - 1 - {at})" if falls else at))
        parts = leaves(found, shape_of(found))
        for name, kind, one in zip(keys, kinds, parts, strict=True):
            if kind == "float":
                this.check(f"math.isnan({this.text(one)})")
            text = this.rank(one) if this.string_kind(one) else this.text(one)
            this.emit(f"{name}[{at}] = {text}")
    this.module.helper(SORT)
    order = this.module.new("v")
    this.emit(f"{order} = np.arange({count})")
    for name in reversed(keys):
        this.emit(f"{order} = sort_places({name}, {order})")

    def read(at: str) -> Value:
        if falls:
            return view.read(f"({count} - 1 - {order}[{count} - 1 - ({at})])")
        return view.read(f"{order}[{at}]")

    return ListView(count, read, view.lists)


def may_grow(value: Value) -> bool:
    """Tell whether a name may stay with the same list where a loop adds to it.

    A list of known length cannot: the function is translated again.
    """
    if isinstance(value, Group) and value.is_list and value.site:
        raise WiderListError(value.site, _shape_of_all(value.values))
    return isinstance(value, ListValue)


def note_length(this: FunctionText, name: str, one: Value, two: Value) -> None:
    """Note that a list has different lengths on two paths: it matters if it is read."""
    both = (one, two)
    if all(isinstance(value, Group) and value.is_list for value in both):
        sites = {value.site for value in both if isinstance(value, Group)}
        if len(sites) == 1 and sites != {0}:
            values = [part for value in both for part in elements_of(value)]
            this.longer[name] = WiderListError(sites.pop(), _shape_of_all(values))


def need_room(group: Group, added: Sequence[Value]) -> NoReturn:
    """Translate the function again, with a list that can grow."""
    raise WiderListError(group.site, _shape_of_all((*group.values, *added)))


def _shape_of_all(values: Sequence[Value]) -> Shape | None:
    shape: Shape | None = None
    for value in values:
        found = shape_of(value)
        shape = found if shape is None else join(shape, found)
    return shape
