"""Two brokers on one directory: the second one is refused in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from pkafka.errors import StorageError
from pkafka.storage.log_directory import LogDirectory

HOLDER = """
import sys
from pathlib import Path
from pkafka.storage.log_directory import LogDirectory
directory = LogDirectory(Path(sys.argv[1]))
directory.lock()
print("locked", flush=True)
sys.stdin.read()
"""


def test_the_lock_keeps_others_out_until_its_owner_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        try:
            assert holder.stdout.readline() == "locked\n"
            directory = LogDirectory(tmp_path)
            with pytest.raises(StorageError, match="another process"):
                directory.lock()
        finally:
            holder.stdin.close()
            holder.wait(20)
    directory.lock()
    directory.unlock()


def test_a_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StorageError):
        LogDirectory(tmp_path / "data")
