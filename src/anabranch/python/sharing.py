"""Sharing: which parts of a program see changes made by another part.

When one thread runs a program, each operator sees the changes of the one before, item
by item, depth first. Sources, sinks and the dead-letter function are parts like any
other. Code that cannot be followed may change its arguments; code that cannot be read
may change anything.

Between processes, and from epoch to epoch, items and states are copies. An object that
equals only itself (a sentinel, an instance without `__eq__`, a NaN in a container) is
then another one. What an operator asks for by identity may come with its items, or be
kept in its state.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from anabranch.graph.graph import Graph, Op, ancestors
from anabranch.operators.sources import FromIterable
from anabranch.python.arrivals import find_held
from anabranch.python.objects import (
    CALLABLES,
    PLACES,
    arrays_in,
    is_scalar,
    is_table_type,
    is_users_class,
    walk_contents,
)
from anabranch.python.source import (
    FunctionNode,
    originals,
)
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ANY_NAME,
    Asked,
    Change,
    Effect,
    Existing,
    Findings,
    Place,
    Read,
    SharedPart,
    scope_id,
)
from anabranch.python.writers import Writers

ATTRIBUTE = scope_id(None)


class Sharing(NamedTuple):
    """A change by one part that another part sees: what and where."""

    reader: str
    writer: str
    text: str
    file: str
    line: int


class Others(Protocol):
    """The effects of functions that were not analyzed but may be called."""

    def may_change(self, read: Read) -> bool:
        """Tell whether one of them may change what is read."""

    def may_read(self, written: Findings) -> bool:
        """Tell whether one of them may read what is changed."""


def find_sharing(
    findings: Mapping[str, Sequence[Findings]], others: Others
) -> tuple[Sharing, ...]:
    """Return all sharing. What two parts both change, each of them also reads."""
    found = []
    readers = _Readers(findings)
    for writer, written in findings.items():
        if not any(map(_writes, written)):
            continue
        for reader in readers.who_may_see(written):
            if reader == writer:
                continue
            pairs = ((w, r) for w in written for r in findings[reader])
            shared = (_find_shared(w, r, others) for w, r in pairs)
            first = next((each for each in shared if each is not None), None)
            if first is not None:
                what, place = first
                text = f"{what}, which {writer} may change"
                found.append(Sharing(reader, writer, text, place.file, place.line))
    return tuple(found)


class _Readers:
    """Readers by object and name, so that only parts with something in common are
    compared.
    """

    def __init__(self, findings: Mapping[str, Sequence[Findings]]) -> None:
        self._everybody = list(findings)
        self._place = {name: place for place, name in enumerate(findings)}
        self._by_key: dict[Any, set[str]] = {}
        self._of_anything: set[str] = set()
        for name, found in findings.items():
            for each in found:
                if each.calls_anyone or each.writes_anything:
                    self._of_anything.add(name)
                for key in (*_keys_of_writes(each), *_read(each)):
                    self._by_key.setdefault(key, set()).add(name)

    def who_may_see(self, written: Sequence[Findings]) -> list[str]:
        """Return the parts that may see some of these changes, in order."""
        if any(map(_writes_at_large, written)):
            return self._everybody
        found = set(self._of_anything)
        for each in written:
            for key in _keys_of_writes(each):
                found |= self._by_key.get(key, set())
        return sorted(found, key=self._place.__getitem__)


def _keys_of_writes(found: Findings) -> Iterator[Any]:
    yield from found.changes
    yield from found.rebinds
    yield from found.resources


def _read(found: Findings) -> Iterator[Any]:
    yield from found.touched
    for name, scope, _ in found.reads:
        yield (name, scope)
        yield scope  # a module, seen as a dictionary


def _writes_at_large(found: Findings) -> bool:
    """Tell whether writes cannot be attributed to an object or a name."""
    return bool(
        found.writes_anything
        or found.writes_settings
        or found.calls_anyone
        or (ANY_NAME, ATTRIBUTE) in found.rebinds
        or any(_is_seen_by_others(each.target) for each in found.changes.values())
    )


def _is_seen_by_others(target: Any) -> bool:
    """Tell whether an object is also visible under another identity."""
    return isinstance(target, types.ModuleType | np.ndarray) or is_table_type(
        type(target)
    )


def _writes(found: Findings) -> bool:
    return bool(
        found.changes
        or found.rebinds
        or found.resources
        or found.writes_anything
        or found.writes_settings
        or found.calls_anyone
    )


def _find_shared(
    writer: Findings, reader: Findings, others: Others
) -> tuple[str, Place] | None:
    """Return what a writer changes and a reader reads, and where."""
    for looks in (_by_object, _by_name, _by_resource, _by_unknown_code):
        for shared in looks(writer, reader):
            return shared
    if writer.writes_settings is not None:
        return "runs with settings of the process", writer.writes_settings
    if writer.calls_anyone is not None:
        for read in (*reader.reads.values(), *reader.touched.values()):
            if others.may_change(read):
                return f"reads {read.name}", Place(read.file, read.line)
    if reader.calls_anyone is not None and others.may_read(writer):
        return "may call a function that reads something", reader.calls_anyone
    if reader.writes_anything is not None and (writer.changes or writer.rebinds):
        return "runs code that cannot be read", reader.writes_anything
    return None


def _by_object(writer: Findings, reader: Findings) -> Iterator[tuple[str, Place]]:
    for target in writer.changes.keys() & reader.touched.keys():
        read = reader.touched[target]
        if not is_scalar(read.target):
            yield f"reads {read.name}", Place(read.file, read.line)
    for read in _arrays_touched(writer, reader):
        yield f"reads {read.name}", Place(read.file, read.line)
    for target in writer.changes.keys() & reader.changes.keys():
        own, other = reader.changes[target], writer.changes[target]
        if not (_is_constant(own.target) or _is_constant(other.target)):
            kind = (
                "something" if own.target is None else f"a {type(own.target).__name__}"
            )
            yield f"uses {kind}", Place(own.file, own.line)


def _arrays_touched(writer: Findings, reader: Findings) -> Iterator[Read]:
    """Yield the reads of a reader whose memory a writer changes."""
    targets = (
        writer.touched[each].target if each in writer.touched else change.target
        for each, change in writer.changes.items()
    )
    arrays = [array for each in targets for array in arrays_in(each)]
    for read in reader.touched.values() if arrays else ():
        for own in arrays_in(read.target):
            if any(np.may_share_memory(own, each) for each in arrays):
                yield read


def _is_constant(target: Any) -> bool:
    return target is not None and (
        is_scalar(target) or isinstance(target, (*CALLABLES, types.ModuleType))
    )


def _by_name(writer: Findings, reader: Findings) -> Iterator[tuple[str, Place]]:
    modules = {
        id(vars(change.target))
        for change in writer.changes.values()
        if isinstance(change.target, types.ModuleType)
    }
    tables = writer.changes.keys() & writer.touched.keys()  # names, as a dictionary
    any_attribute = (ANY_NAME, ATTRIBUTE) in writer.rebinds
    for (name, scope, _), read in reader.reads.items():
        if (
            (name, scope) in writer.rebinds
            or scope in modules
            or scope in tables
            or (any_attribute and scope == ATTRIBUTE)
        ):
            yield f"reads {name}", Place(read.file, read.line)
    for name, scope in writer.rebinds.keys() & reader.rebinds.keys():
        # an attribute that both assign may belong to two objects
        if scope != ATTRIBUTE:
            yield f"assigns {name}", reader.rebinds[name, scope]


def _by_resource(writer: Findings, reader: Findings) -> Iterator[tuple[str, Place]]:
    for resource in writer.resources.keys() & reader.resources.keys():
        yield f"uses {resource}", reader.resources[resource]


def _by_unknown_code(writer: Findings, reader: Findings) -> Iterator[tuple[str, Place]]:
    if writer.writes_anything is None:
        return
    for read in (*reader.reads.values(), *reader.touched.values()):
        yield f"reads {read.name}", Place(read.file, read.line)
    if reader.writes_anything is not None:
        yield "runs code that cannot be read", reader.writes_anything


def spread_changes(findings: Iterable[Findings]) -> frozenset[int]:
    """Add the contents of changed objects to the changes; return all that is
    changed.
    """
    changed: set[int] = set()
    for found in findings:
        for target, change in list(found.changes.items()):
            if change.target is None and target in found.touched:
                holder = found.touched[target].target
                for each in walk_contents(holder, opened=True):
                    found.changes.setdefault(id(each), change._replace(target=each))
        changed |= found.changes.keys()
    return frozenset(changed)


def _spread_reads(findings: Sequence[Findings], changed: Collection[int]) -> None:
    """Add what is visible through an object, in a table or behind a view."""
    seen: dict[tuple[int, bool], list[Any]] = {}
    for found in findings if changed else ():
        for target, read in list(found.touched.items()):
            key = (target, target in found.opened)
            if key not in seen:
                inner = walk_contents(read.target, opened=key[1])
                seen[key] = [each for each in inner if id(each) in changed]
            for each in seen[key]:
                found.touched.setdefault(id(each), read._replace(target=each))


class Verdicts:
    """The findings about all operators of a program, judged together."""

    def __init__(
        self, universe: Universe, findings: Mapping[str, list[Findings]]
    ) -> None:
        self.findings = findings
        everything = [f for each in findings.values() for f in each]
        self.changed: dict[int, Change] = {}
        self.rebound: dict[tuple[str, int], Place] = {}
        visited: set[FunctionNode] = set()
        believed: set[FunctionNode] = set()
        _spread_reads(everything, spread_changes(everything))
        for found in everything:
            self.changed.update(found.changes)
            self.rebound.update(found.rebinds)
            visited |= found.visited | originals(found.visited)
            believed |= found.believed
        self.writers = Writers(universe.modules, visited, believed)
        self._anybody = any(found.runs_anything for found in everything)
        self._reads: dict[Any, Effect | None] = {}
        self.sharing = find_sharing(findings, self)

    def why_not_pure(self, operator: str) -> Effect | None:
        """Return why an operator's code is unsafe to run in parallel, or None."""
        for found in self.findings.get(operator, ()):
            if found.connector:
                continue
            if found.effects:
                return min(found.effects, key=_rank)
            for target, read in found.touched.items():
                if target in self.changed and not is_scalar(read.target):
                    change = self.changed[target]
                    where = f"which {change.file}:{change.line} changes"
                    return _unsafe(read, where, proved=True)
            for key, read in found.reads.items():
                effect = self._why_unsafe(key, read)
                if effect is not None:
                    return effect
        for shared in self.sharing:
            if shared.reader == operator:
                return Effect("unknown", shared.text, shared.file, shared.line)
        return None

    def may_read(self, written: Findings) -> bool:
        """Tell whether a function that was not analyzed may read what is changed."""
        return self.writers.mentions(written) is not None

    def may_change(self, read: Read) -> bool:
        """Tell whether some function of the program may change what is read."""
        if id(read.target) in self.changed and not is_scalar(read.target):
            return True
        return self._weigh(read, anybody=True) is not None

    def _why_unsafe(self, key: Any, read: Read) -> Effect | None:
        if key not in self._reads:
            self._reads[key] = self._weigh(read, anybody=self._anybody)
        return self._reads[key]

    def _weigh(self, read: Read, *, anybody: bool) -> Effect | None:
        """Return why reading something is unsafe; `anybody` if any function may run."""
        place = self.rebound.get((read.name, scope_id(read.scope)))
        if place is not None:
            where = f"which {place.file}:{place.line} assigns"
            return _unsafe(read, where, proved=self._is_assigned(read.name, place))
        place = self.writers.who_rebinds(read.name, read.scope, anybody=anybody)
        if place is not None:
            return _unsafe(read, f"which {place.file}:{place.line} assigns")
        if is_scalar(read.target) or isinstance(
            read.target, (*CALLABLES, types.ModuleType)
        ):
            return None
        if isinstance(read.target, _GETTERS) and not is_users_class(type(read.target)):
            return None
        place = self.writers.who_may_change(
            read.name, read.scope, read.target, anybody=anybody
        )
        if place is not None:
            return _unsafe(read, f"which {place.file}:{place.line} may change")
        return None

    def _is_assigned(self, name: str, place: Place) -> bool:
        """Tell whether the code of an operator assigns a name of that file."""
        return any(
            effect.kind == "changes"
            and effect.file == place.file
            and effect.text == f"assigns the {effect.variable}"
            and effect.variable is not None
            and effect.variable.name == name
            for each in self.findings.values()
            for found in each
            for effect in found.effects
        )


# Class entries that contain only functions: using one changes nothing in it.
_GETTERS: Final = (
    *(property, types.DynamicClassAttribute, staticmethod, classmethod),
    *PLACES,
)


def _unsafe(read: Read, why: str, *, proved: bool = False) -> Effect:
    text = f"reads {read.name}, {why}"
    return Effect("shared" if proved else "unknown", text, read.file, read.line)


def _rank(effect: Effect) -> tuple[int, int, bool, str]:
    """Rank effects by what explains most: a change, early in the code, of a known
    object.
    """
    kinds = ("changes", "impure", "identity", "shared", "unknown")
    vague = "something that" in effect.text or "what lies in" in effect.text
    return (kinds.index(effect.kind), effect.line, vague, effect.text)


def find_identity(
    graph: Graph, found: Mapping[str, Sequence[Findings]]
) -> dict[str, Effect]:
    """Return, for each part that must not be given copies, where it asks for
    identity.
    """
    reasons = ((name, _why_not_copies(graph, name, found)) for name in found)
    return {name: why for name, why in reasons if why is not None}


def _why_not_copies(
    graph: Graph, name: str, found: Mapping[str, Sequence[Findings]]
) -> Effect | None:
    for each in found[name]:
        for effect in each.effects:
            if effect.kind == "identity":
                return effect
        if each.loses is not None:
            return each.loses
    asked = [one for each in found[name] for one in each.asked.values()]
    if asked:
        before = ancestors(graph, name) if name in graph else graph.names
        handed = {
            target: obj
            for above in before
            if above in found and above != name
            for each in found[above]
            for target, obj in each.hands_on.items()
        }
        lists = list(_lists(graph[above] for above in before))
        for one in asked:
            if _may_arrive(one, found[name], handed, lists):
                return Effect("identity", *one[1:])
    return None


def _lists(ops: Iterator[Op]) -> Iterator[Sequence[Any]]:
    for op in ops:
        if isinstance(op.kind, FromIterable) and isinstance(
            op.kind.items, list | tuple
        ):
            yield op.kind.items


def _may_arrive(
    asked: Asked,
    found: Sequence[Findings],
    handed: Mapping[int, Any],
    lists: Sequence[Sequence[Any]],
) -> bool:
    """Tell whether operators before, or a list, give the object that is asked for.

    Annotations do not count: the default of an attribute need not be of its type.
    """
    match asked.root:
        case Existing(obj=obj):
            wanted = {id(obj)}
            return any(find_held(each, wanted) for each in ([*handed.values()], *lists))
        case SharedPart(target=target) if target in handed:
            return True
        case SharedPart(target=target):
            touched = (each.touched.get(target) for each in found)
            holders = [read.target for read in touched if read is not None]
            return bool(find_held(holders, handed.keys()))
    return False
