"""One log file, several writers: nothing is lost or mixed when it is put aside."""

import logging
import os
import sys
from pathlib import Path

import pytest

from pkafka.tools.servers.rotating_log import OneLineFormatter, SharedRotatingHandler


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("n", logging.INFO, __file__, 1, text, None, None)


def lines(folder: Path) -> list[str]:
    files = [each for each in folder.iterdir() if each.name.startswith("s.log") and each.suffix != ".lock"]
    return [line for each in files for line in each.read_text().splitlines()]


def test_a_full_file_is_put_aside_and_old_ones_go(tmp_path: Path) -> None:
    handler = SharedRotatingHandler(tmp_path / "s.log", bytes_max=10, kept=2)
    for text in ("first", "second", "third", "fourth"):
        handler.emit(record(text))
    handler.close()
    assert (tmp_path / "s.log").read_text() == "fourth\n"
    assert (tmp_path / "s.log.1").read_text() == "third\n"
    assert (tmp_path / "s.log.2").read_text() == "second\n"
    assert "first" not in lines(tmp_path)


def test_a_writer_follows_the_file_that_another_put_aside_or_somebody_removed(tmp_path: Path) -> None:
    path = tmp_path / "s.log"
    one, other = (SharedRotatingHandler(path, bytes_max=10) for _ in range(2))
    one.emit(record("aaaaa"))
    one.emit(record("bbbbb"))
    other.emit(record("c"))
    assert path.read_text() == "bbbbb\nc\n"
    path.unlink()
    one.emit(record("d"))
    other.emit(record("e"))
    assert path.read_text() == "d\ne\n"
    one.close()
    other.close()


def test_processes_that_share_it_lose_no_line_and_mix_none(tmp_path: Path) -> None:
    handler = SharedRotatingHandler(tmp_path / "s.log", bytes_max=2_000, kept=500)
    children = []
    for writer in "abc":
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for number in range(300):
                    handler.emit(record(f"{writer}{number} " + writer * 40))
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    handler.close()
    expected = {f"{writer}{number} " + writer * 40 for writer in "abc" for number in range(300)}
    found = lines(tmp_path)
    assert set(found) == expected
    assert len(found) == len(expected)


def test_what_fails_does_not_reach_the_caller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler = SharedRotatingHandler(tmp_path / "s.log")
    broken = logging.LogRecord("n", logging.INFO, __file__, 1, "%d", ("x",), None)
    handler.emit(broken)
    handler.close()
    assert "Logging error" in capsys.readouterr().err


def test_a_message_stays_in_its_line_and_a_traceback_has_its_own() -> None:
    formatter = OneLineFormatter("%(levelname)s %(message)s")
    record = logging.makeLogRecord(
        {"levelname": "INFO", "msg": "Group %s leaves", "args": ("g\n\x1b[2J\u0085ERROR é\t",)}
    )
    assert formatter.format(record) == r"INFO Group g\n\x1b[2J\x85ERROR é\t leaves"
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record.exc_info = sys.exc_info()
    lines = formatter.format(record).splitlines()
    assert lines[1].startswith("Traceback")
    assert lines[-2:] == ["ValueError: two", "lines"]
