"""Options come from a file, the environment and the command line, in this order."""

import pytest

from anabranch.cli import main

PROGRAM = """
import anabranch as ab
program = ab.from_iterable(range(5), name="numbers").map(lambda n: 10 // n).to_list()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.py").write_text(PROGRAM)
    return tmp_path


def test_a_file_has_the_options_of_run(folder, capsys):
    (folder / "anabranch.toml").write_text(
        '[run]\non = "sequential"\non_error = "skip"\nshow = 1\nui = false\n'
    )

    assert 0 == main(["run", "job.py"])
    assert "on sequential" in capsys.readouterr().err


def test_the_environment_overrides_the_file_and_is_overridden(
    folder, capsys, monkeypatch
):
    (folder / "anabranch.toml").write_text('[run]\non = "spark"\non-error = "stop"\n')
    monkeypatch.setenv("ANABRANCH_RUN_ON", "sequential")
    monkeypatch.setenv("ANABRANCH_RUN_ON_ERROR", "skip")

    assert 0 == main(["run", "job.py"])
    assert 1 == main(["run", "job.py", "--on-error", "stop"])
    assert "division" in capsys.readouterr().err


WRONG = {
    "another option": ("[run]\nfaster = true\n", "got 'faster'; there are checkpoint"),
    "another table": ("[runs]\n", "must have one table, [run]; got runs"),
    "not TOML": ("run: yes\n", "must be a TOML file"),
    "no yes or no": ('[run]\nui = "perhaps"\n', "'ui' in anabranch.toml must be true"),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_in_the_file_is_told(folder, capsys, text, words):
    (folder / "anabranch.toml").write_text(text)

    assert 1 == main(["run", "job.py", "--on", "sequential"])
    said = capsys.readouterr().err
    assert said.startswith("error AB61: anabranch.toml") or "'ui' in" in said
    assert words in said


def test_help_and_other_commands_ignore_the_file(folder, capsys):
    (folder / "anabranch.toml").write_text("[run]\nfaster = true\n")

    assert 0 == main(["explain", "job.py", "--on", "local"])
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--help"])
    assert "--on-error" in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_can_complete_options(capsys, shell):
    assert 0 == main(["completion", shell])

    script = capsys.readouterr().out
    assert "--epoch-items" in script
    assert "simulate" in script
