"""What a broker remembers of its session for its next life, and where it does not count."""

import shutil
from pathlib import Path

from pkafka.server.session_file import read_session, write_session


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


def test_damage_costs_only_time(tmp_path: Path) -> None:
    path = tmp_path / "pkafka-session"
    path.write_text("no session\nat all")
    assert read_session(path) is None
    write_session(tmp_path / "missing" / "pkafka-session", 1)
