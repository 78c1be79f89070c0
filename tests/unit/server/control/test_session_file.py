"""What a broker remembers of its session for its next life, and where it does not count."""

import shutil
from pathlib import Path

import pytest

from pkafka.server.control import session_file
from pkafka.server.control.session_file import may_lack_records, read_session, write_session


def test_the_next_life_in_the_same_directory_knows_the_session(tmp_path: Path) -> None:
    path = tmp_path / "pkafka-session"
    assert read_session(path) is None
    write_session(path, 0x1000ABCDEF)
    assert read_session(path) == 0x1000ABCDEF


def test_a_copy_of_the_directory_does_not(tmp_path: Path) -> None:
    original = tmp_path / "data"
    original.mkdir()
    write_session(original / "pkafka-session", 7)
    shutil.copytree(original, tmp_path / "copy")
    assert read_session(tmp_path / "copy" / "pkafka-session") is None
    original.rename(tmp_path / "elsewhere")  # moved it is the same
    assert read_session(tmp_path / "elsewhere" / "pkafka-session") == 7


def test_a_life_before_the_machine_was_started_anew_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replicas may lack what they acknowledged: nobody must believe that it is the same broker still."""
    path, boot = tmp_path / "pkafka-session", tmp_path / "boot_id"
    monkeypatch.setattr(session_file, "BOOT_ID_FILE", boot)
    boot.write_text("first\n")
    write_session(path, 7)
    assert read_session(path) == 7
    boot.write_text("second\n")
    assert read_session(path) is None
    # Where nobody knows, it may always be so.
    boot.unlink()
    write_session(path, 8)
    assert read_session(path) is None


def test_records_may_be_missing_where_it_was_another_run_of_the_machine_or_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    path, boot = data / "pkafka-session", tmp_path / "boot_id"
    monkeypatch.setattr(session_file, "BOOT_ID_FILE", boot)
    boot.write_text("first\n")
    assert not may_lack_records(path)  # nobody has lived here yet
    write_session(path, 7)
    assert not may_lack_records(path)
    shutil.copytree(data, tmp_path / "copy")
    assert may_lack_records(tmp_path / "copy" / "pkafka-session")
    boot.write_text("second\n")
    assert may_lack_records(path)
    path.write_bytes(bytes(path.stat().st_size))  # as a power cut may leave it
    assert may_lack_records(path)


def test_damage_costs_only_time(tmp_path: Path) -> None:
    path = tmp_path / "pkafka-session"
    path.write_text("no session\nat all")
    assert read_session(path) is None
    write_session(tmp_path / "missing" / "pkafka-session", 1)
