"""Files made from the code are what the code makes now, and the shells and man accept them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts import regenerate

COMMANDS = dict(regenerate.commands())


def test_generated_files_are_up_to_date() -> None:
    differing = [
        path
        for path, text in regenerate.files().items()
        if not (regenerate.ROOT / path).exists() or (regenerate.ROOT / path).read_text("utf-8") != text
    ]
    assert not differing, f"run `make regenerate`: {differing}"
    assert not regenerate.stale(), "run `make regenerate`: these are made by nothing any more"


def test_a_changed_flag_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = regenerate.files()
    monkeypatch.setattr(COMMANDS["pk-topics"].params[0], "help", "Something else.")
    after = regenerate.files()
    changed = {path for path in after if after[path] != before[path]}
    assert changed == {"man/pk-topics.1", "completions/zsh/_pk-topics", "completions/fish/pk-topics.fish"}


def complete(command: str, *words: str) -> list[str]:
    """What bash offers after these words, the last of which is being typed."""
    file = regenerate.ROOT / "completions" / "bash" / command
    function = "_" + command.replace("-", "_")
    quoted = " ".join(f"'{word}'" for word in (command, *words))
    script = f"source '{file}'; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; {function}; echo \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_offers_the_flags_of_every_command(command: str) -> None:
    assert "--help" in complete(command, "--h")


def test_bash_offers_values_verbs_and_the_flags_of_verbs() -> None:
    assert complete("pk-topics", "--output", "json") == ["json", "jsonl"]
    assert complete("pk-topics", "--topic", "") == []
    assert complete("pk-configs", "--entity-type", "b") == ["brokers", "broker-loggers"]
    assert complete("pk-get-offsets", "--time", "earl") == ["earliest", "earliest-local"]
    assert complete("pk-dev", "") == ["down", "run", "status", "up", "--version", "-h", "--help"]
    assert complete("pk-dev", "up", "--ov") == ["--override"]
    assert complete("pk-dev", "run", "--workers", "2", "ls") == []


@pytest.mark.parametrize(("shell", "flag"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_completions_are_legal_scripts(shell: str, flag: str) -> None:
    program = shutil.which(shell)
    files = sorted((regenerate.ROOT / "completions" / shell).iterdir())
    assert len(files) == len(COMMANDS)
    for file in files if program is not None else []:  # zsh and fish are checked where they are installed
        done = subprocess.run(
            [str(program), flag, file], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), file


@pytest.mark.parametrize("command", COMMANDS)
def test_man_pages_have_their_sections_and_every_flag(command: str) -> None:
    text = Path(regenerate.ROOT / "man" / f"{command}.1").read_text("utf-8")
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT"):
        assert f"\n.SH {section}\n" in text
    assert "Not documented" not in text
    for line in text.splitlines():
        assert not line.startswith("'"), "groff would take this line for a request"
