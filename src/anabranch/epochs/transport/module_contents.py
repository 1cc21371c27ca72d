"""What the user's modules hold, here and in a worker that imports them anew.

A worker imports the modules beside a script by their names. It does not see what the
program has changed in them since (`settings.RATE = 5`, a table that `main` fills, a
function that another module registers). So the driver sends the variables of the
modules that the program's code leads to, with their digests. A worker compares them as
soon as it has imported a module, and sets those that are not the same.

A large variable, or one that may not be copied without the user's code, is not sent at
once. If the code reaches it, the first tasks tell that it differs, and it is sent then.
"""

from __future__ import annotations

import enum
import importlib.abc
import sys
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

from anabranch.epochs.transport.digests import digest_value
from anabranch.epochs.transport.program_modules import find_modules, find_used
from anabranch.errors import EngineError
from anabranch.graph.code_names import names_of
from anabranch.graph.graph import Graph
from anabranch.graph.site import is_users_file
from anabranch.runtime.verify.fingerprint import Limits, Reach
from anabranch.runtime.verify.verifier import is_declared, roots_of

_HERE = uuid.uuid4().hex  # this process, or the one that forked it
_LIMITS = Limits(elements=1 << 10, values=1 << 16)  # of the walk to variables
_LIGHT_BYTES = 1 << 20  # of a variable that is always sent
_MOST_BYTES = 1 << 23  # of all these
_MOST_NAMED = 3  # variables in a message

Variable: TypeAlias = tuple[str, str]  # of a module, or of a class in it: "Model.rate"
Write: TypeAlias = Callable[[Any, int | None], bytes]  # raises beyond so many bytes


@dataclass(frozen=True)
class ModuleContents:
    """The variables of modules, in the process `origin`.

    `places` tells where in `values` the value of a variable is, if it is there.
    `reached` are those that the code certainly leads to. Of objects the attributes with
    these `names` count, None for all.
    """

    origin: str = _HERE
    names: Collection[str] | None = None
    digests: Mapping[Variable, bytes] = field(default_factory=dict)
    reached: frozenset[Variable] = frozenset()
    places: Mapping[Variable, int] = field(default_factory=dict)
    values: Sequence[bytes] = ()

    def find_differences(self) -> tuple[Variable, ...]:
        """Return the reached variables that are not the same in this process."""
        modules = {name for name, _ in self.reached if name in sys.modules}
        here = {
            (name, path): value
            for name in modules
            for path, value in _list_variables(sys.modules[name])
        }
        return tuple(
            variable
            for variable in sorted(self.reached)
            if variable[0] in modules
            and not (variable in here and self.has(variable, here[variable]))
        )

    def has(self, variable: Variable, value: Any) -> bool:
        """Tell whether a variable has this value."""
        return digest_value(value, self.names).data == self.digests[variable]


def read_contents(
    graph: Graph, write: Write, wanted: Collection[Variable] = ()
) -> ModuleContents:
    """Return what workers must find in the modules that they import by name.

    `wanted` are the variables whose values they need, however large.
    """
    names, places, values = find_used(graph), dict[Variable, int](), list[bytes]()
    digests, reached, known = dict[Variable, bytes](), set[Variable](), dict[int, int]()
    leads_to, size = _find_reached(graph), 0
    for module in filter(_is_imported, find_modules(graph)):
        for path, value in _list_variables(module):
            variable = module.__name__, path
            digest = digest_value(value, names)
            digests[variable] = digest.data
            if leads_to(variable):
                reached.add(variable)
            most = None if variable in wanted else _LIGHT_BYTES
            if id(value) in known:
                places[variable] = known[id(value)]
            elif most is None or (digest.whole and size < _MOST_BYTES):
                try:
                    data = write(value, most)
                except Exception as error:
                    if most is None:
                        raise _cannot_travel(variable, error) from error
                    continue
                places[variable] = known[id(value)] = len(values)
                values.append(data)
                size += len(data)
    return ModuleContents(_HERE, names, digests, frozenset(reached), places, values)


def _find_reached(graph: Graph) -> Callable[[Variable], bool]:
    """Return whether the code that runs in workers certainly leads to a variable."""
    roots = [root for op in graph if not is_declared(op) for root in roots_of(op)]
    reach = Reach(roots, _LIMITS)
    modules, names, computed = set(reach.modules), set[str](), False
    for one in reach.found:
        if isinstance(one, type):
            modules.add(one.__module__)
        elif isinstance(one, FunctionType):
            used = names_of(one.__code__)
            modules |= {one.__module__, *used.modules}
            names |= {one.__name__, *used.globals, *used.attributes}
            computed |= used.computed

    def leads_to(variable: Variable) -> bool:
        module, path = variable
        return module in modules and (computed or path.split(".")[-1] in names)

    return leads_to


def _cannot_travel(variable: Variable, error: Exception) -> EngineError:
    return EngineError(
        f"{show_variables([variable])} must be able to travel to the workers: it was "
        f"changed after the import; {error}; make it in the body of its module, or "
        f"pass what is needed of it as an argument"
    )


def refuse_differences(found: Sequence[Variable]) -> None:
    """Raise if variables differ that have been sent."""
    if found:
        msg = (
            f"the modules of a program must be the same in the workers; "
            f"{show_variables(found)} was changed after the import, and a copy is not "
            f"the same; make it in the body of its module, or pass it as an argument"
        )
        raise EngineError(msg)


def show_variables(variables: Sequence[Variable]) -> str:
    """Return some variables in words.

    >>> show_variables([("settings", "RATE"), ("settings", "Model.rate")])
    'settings.RATE, settings.Model.rate'
    """
    some = [*map(".".join, variables[:_MOST_NAMED])]
    return ", ".join([*some, "..."] if len(variables) > _MOST_NAMED else some)


def _is_imported(module: ModuleType) -> bool:
    """Tell whether a module is one of the user's that other processes import."""
    file = vars(module).get("__file__")
    known = isinstance(file, str) and is_users_file(file)
    return known and module.__name__ != "__main__"


def _list_variables(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the variables of a module and of its classes, with their paths."""
    waiting: list[tuple[str, Any]] = [("", module)]
    while waiting:
        path, owner = waiting.pop()
        for name, value in list(vars(owner).items()):
            if isinstance(value, type) and _is_defined(value, module, path + name):
                if not issubclass(value, enum.Enum):
                    waiting.append((f"{path}{name}.", value))
            elif not (name.startswith("__") or isinstance(value, ModuleType)) and (
                owner is module or _is_data(value)
            ):
                yield path + name, value


def _is_defined(cls: type, module: ModuleType, path: str) -> bool:
    """Tell whether a path is where a class was defined."""
    return (cls.__module__, cls.__qualname__) == (module.__name__, path)


def _is_data(value: Any) -> bool:
    """Tell whether a member of a class is no slot, property or other descriptor.

    A method that the program has replaced is found by its name.
    """
    return isinstance(value, FunctionType) or not hasattr(type(value), "__get__")


class ModulePatches(importlib.abc.MetaPathFinder):
    """Sets the variables that differ, as soon as their module is imported here."""

    def __init__(self, contents: ModuleContents, read: Callable[[bytes], Any]) -> None:
        self._contents = contents
        self._read = read
        self._found: dict[int, Any] = {}  # by place
        self._waiting: dict[str, list[Variable]] = {}
        if contents.origin != _HERE:
            for variable in contents.places:
                self._waiting.setdefault(variable[0], []).append(variable)

    def install(self) -> None:
        """Set them now, or when the module comes; forget those of an earlier job."""
        for finder in list(sys.meta_path):
            if isinstance(finder, ModulePatches):
                sys.meta_path.remove(finder)
        for name in list(self._waiting):
            if isinstance(sys.modules.get(name), ModuleType):
                self.patch(sys.modules[name])
        if self._waiting:
            sys.meta_path.insert(0, self)

    def patch(self, module: ModuleType) -> None:
        """Set the variables of a module; tasks tell which ones could not be set."""
        here = dict(_list_variables(module))
        for variable in self._waiting.pop(module.__name__, ()):
            _, path = variable
            if path in here and self._contents.has(variable, here[path]):
                continue
            *within, last = path.split(".")
            owner: Any = module
            for part in within:
                owner = vars(owner).get(part, owner)
            with suppress(Exception):  # it may need a package that is not here
                setattr(owner, last, self._take(self._contents.places[variable]))

    def _take(self, place: int) -> Any:
        if place not in self._found:
            self._found[place] = self._read(self._contents.values[place])
        return self._found[place]

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is, with a loader that patches it."""
        if name not in self._waiting:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)):
                if spec.loader is not None:
                    spec.loader = _PatchingLoader(spec.loader, self)
                return spec
        return None


class _PatchingLoader(importlib.abc.Loader):
    """Loads a module as another loader does, and has it patched."""

    def __init__(self, loader: importlib.abc.Loader, patches: ModulePatches) -> None:
        self._loader = loader
        self._patches = patches

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._patches.patch(module)
