"""What the first screen of pk-server-start says about finding the other commands."""

import os
import sys
from pathlib import Path

import pytest

from pkafka.cli.server_start import how_to_find_the_commands


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment that this interpreter is said to belong to, and that is not on the path."""
    programs = tmp_path / "clone" / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").touch()
    (programs / "pk-topics").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("PATH", os.defpath)
    return programs


def test_an_environment_in_the_folder_is_activated(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(environment.parents[1])
    assert how_to_find_the_commands() == ". .venv/bin/activate"


def test_one_elsewhere_is_named_in_full(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(environment.parents[2])
    (environment.parents[2] / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert how_to_find_the_commands() == f". {environment}/activate"


def test_commands_on_the_path_need_nothing(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{environment}:{os.defpath}")
    assert how_to_find_the_commands() is None


def test_an_installation_without_activate_is_left_alone(environment: Path) -> None:
    (environment / "activate").unlink()
    assert how_to_find_the_commands() is None
