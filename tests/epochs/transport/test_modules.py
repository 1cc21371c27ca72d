"""Which modules workers could not import."""

import importlib.util
import sys

import pytest

from anabranch.epochs.transport.modules import not_importable


@pytest.fixture
def load(tmp_path):
    """Load a file of the user's under a name, as no import would."""
    names = []

    def load_file(file):
        path = tmp_path / f"{file}.py"
        name = path.stem
        path.write_text("def double(x):\n    return 2 * x\n")
        spec = importlib.util.spec_from_file_location(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        names.append(name)
        spec.loader.exec_module(module)
        return module

    yield load_file
    for name in names:
        del sys.modules[name]


def test_a_file_that_is_not_on_the_path_is_sent_by_value(load):
    assert load("loaded_by_hand") in not_importable()


def test_a_file_on_the_path_is_imported(load, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    assert load("loaded_from_the_path") not in not_importable()


def test_a_file_to_which_the_path_has_a_link_is_imported(load, tmp_path, monkeypatch):
    (tmp_path / "linked").symlink_to(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "linked")

    assert load("loaded_by_a_link") not in not_importable()


@pytest.mark.parametrize(("on_path", "sent"), [(True, False), (False, True)])
def test_packages_of_another_environment_are_imported_if_it_is_on_the_path(
    load, tmp_path, monkeypatch, on_path, sent
):
    (tmp_path / "site-packages").mkdir()
    if on_path:
        monkeypatch.syspath_prepend(tmp_path / "site-packages")

    assert sent == (load("site-packages/six_of_another") in not_importable())


def test_another_file_of_the_same_name_on_the_path_does_not_count(
    load, tmp_path, monkeypatch
):
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "loaded_twice.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "first")

    assert load("loaded_twice") in not_importable()


def test_what_is_installed_and_what_is_ours_is_imported():
    found = {module.__name__.partition(".")[0] for module in not_importable()}

    assert not found & {"anabranch", "pytest", "json", "numpy", "tests"}


def test_a_module_that_is_being_imported_is_sent_by_value_with_its_package(
    tmp_path, monkeypatch
):
    package = tmp_path / "runs_in_import"
    package.mkdir()
    (package / "part.py").write_text("def double(x):\n    return 2 * x\n")
    (package / "__init__.py").write_text(
        "from anabranch.epochs.transport import modules\n"
        "from runs_in_import import part\n"
        "before = part in modules.not_importable()\n"
        "modules.send_importing_by_value()\n"
        "sent = modules.find_modules_by_value()\n"
        "after = part in modules.not_importable()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    module = importlib.import_module("runs_in_import")

    assert module in module.sent
    assert sys.modules[__name__] not in module.sent
    assert (False, True) == (module.before, module.after)
