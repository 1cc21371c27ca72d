"""Modules sent to workers by value, because workers cannot import them.

A program loaded from a file exists under its name in this process only. A module that
runs a program while it is being imported would run it again in every worker. An engine
with other processes sends such code by value.
"""

from __future__ import annotations

import contextlib
import os
import site
import sys
import sysconfig
from functools import lru_cache
from importlib.machinery import ModuleSpec
from types import FrameType, FunctionType, ModuleType

_OURS = __name__.partition(".")[0]
_PACKAGES = (os.sep + "site-packages", os.sep + "dist-packages")
_modules: dict[str, ModuleType] = {}


def send_by_value(*modules: ModuleType) -> None:
    """Send the code of modules with every program from now on.

    >>> import sys, types
    >>> my_job = sys.modules["my_job"] = types.ModuleType("my_job")
    >>> send_by_value(my_job)
    >>> my_job in find_modules_by_value()
    True
    >>> del sys.modules["my_job"]
    >>> my_job in find_modules_by_value()
    False
    """
    _modules.update({module.__name__: module for module in modules})


def find_modules_by_value() -> tuple[ModuleType, ...]:
    """Return the loaded modules whose code is sent along."""
    return tuple(
        module for name, module in _modules.items() if sys.modules.get(name) is module
    )


def send_importing_by_value() -> None:
    """Send the code of the modules whose import is under way in this thread.

    Workers must not import such a module: its body is what starts the program, so they
    would start it again. And no other thread of this process can import it now: an
    import waits until the body has ended, which waits for the program.
    """
    frame: FrameType | None = sys._getframe()  # noqa: SLF001
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            name = frame.f_globals.get("__name__", "")
            module = sys.modules.get(name)
            if (
                module is not None
                and vars(module) is frame.f_globals  # not the text of a doctest
                and name.partition(".")[0] not in ("__main__", _OURS)
            ):
                _modules[name] = module
        frame = frame.f_back


def not_importable() -> tuple[ModuleType, ...]:
    """Return the loaded modules that another process would not find on this path.

    They were loaded from a file by hand, or created dynamically. Installed modules are
    assumed to be importable, and so are the modules of importable packages.

    >>> import sys, types
    >>> made = sys.modules["made_up"] = types.ModuleType("made_up")
    >>> exec("def double(x): return 2 * x", vars(made))
    >>> made in not_importable(), sys in not_importable()
    (True, False)
    >>> del sys.modules["made_up"]
    """
    sites = _find_sites(tuple(sys.path))
    found: dict[str, bool] = {}
    return tuple(
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and name == module.__name__ != "__main__"
        and not _is_installed(name, module, sites)
        and not _is_found(name, module, found)
        and _has_code(module)
    )


def _is_installed(name: str, module: ModuleType, sites: tuple[str, ...]) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top == _OURS:
        return True
    file = getattr(module, "__file__", None)
    if file is None and top != name:  # created by its package
        package = sys.modules.get(top)
        return package is not None and _is_installed(top, package, sites)
    return file is not None and os.path.abspath(file).startswith(sites)  # noqa: PTH100


@lru_cache(maxsize=8)
def _find_sites(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders of installed modules, also those of other environments."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(site.getsitepackages())
    folders.add(site.getusersitepackages())
    folders.update(one for one in path if one.endswith(_PACKAGES))
    return tuple(folder + os.sep for folder in folders)


def _has_code(module: ModuleType) -> bool:
    """Tell whether a module has Python code; extensions have none."""
    mine = [v for v in vars(module).values() if _module_of(v) == module.__name__]
    inside = [part for v in mine if isinstance(v, type) for part in vars(v).values()]
    return any(isinstance(value, FunctionType) for value in (*mine, *inside))


def _module_of(value: object) -> object:
    if isinstance(value, ModuleType):  # its own `__getattr__` would run
        return None
    return getattr(value, "__module__", None)


def _is_found(name: str, module: ModuleType, found: dict[str, bool]) -> bool:
    """Tell whether an import in another process would find this very file.

    `found` caches the answers for all modules of a package.
    """
    if name not in found:
        found[name] = _look_for(name, module, found)
    return found[name]


def _look_for(name: str, module: ModuleType, found: dict[str, bool]) -> bool:
    if _modules.get(name) is module:  # nor are the modules of this package
        return False
    parent, _, _ = name.rpartition(".")
    path = None
    if parent:
        package = sys.modules.get(parent)
        path = getattr(package, "__path__", None)
        if package is None or path is None or not _is_found(parent, package, found):
            return False
    file = getattr(module, "__file__", None)
    spec = _spec(name, path)
    if spec is None:
        return False
    if file is None:  # a namespace package
        return spec.submodule_search_locations is not None
    return spec.origin is not None and (
        spec.origin == file or os.path.realpath(spec.origin) == os.path.realpath(file)
    )


def _spec(name: str, path: object) -> ModuleSpec | None:
    for finder in sys.meta_path:
        found = None
        with contextlib.suppress(Exception):  # a third-party finder
            found = finder.find_spec(name, path)  # type: ignore[arg-type]
        if found is not None:
            return found
    return None
