"""A PostgreSQL server on a free port of this machine, with its data in a directory of its own."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.sockets import free_port
from tests.talk import wait_for

_PLACES: Final = ":".join([os.environ.get("PATH", ""), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])
_USER: Final = "postgres"
_START_TIMEOUT_S: Final = 60.0


def missing() -> str | None:
    """What this machine lacks for a server, with the command that installs it; None when it is all there."""
    if shutil.which("postgres", path=_PLACES) is None or shutil.which("initdb", path=_PLACES) is None:
        return "no postgres: sudo apt-get install -y postgresql"
    return None


class Postgres:
    """A server.

    Args:
        port: that it listens at, on this machine alone.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.jdbc = f"jdbc:postgresql://127.0.0.1:{port}/postgres"

    def __call__(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement, if it has any."""
        import psycopg

        address = f"host=127.0.0.1 port={self.port} user={_USER} dbname=postgres connect_timeout=5"
        with psycopg.connect(address, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All of a table, in order; none while it is missing."""
        import psycopg

        try:
            return sorted(self(f"SELECT * FROM {table}"))
        except psycopg.errors.UndefinedTable:
            return []

    def answers(self) -> bool:
        """Whether it takes connections."""
        import psycopg

        try:
            self("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


@contextlib.contextmanager
def postgres(**settings: str) -> Iterator[Postgres]:
    """A server that runs until the block ends.

    Args:
        settings: of postgresql.conf.
    """
    directory = Path(tempfile.mkdtemp(prefix="pkafka-postgres-"))
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:  # which it refuses to run as
        shutil.chown(directory, _USER, _USER)
        as_user = {"user": _USER, "group": _USER, "extra_groups": []}
    server = Postgres(free_port())
    try:
        _run(
            "initdb",
            "-D",
            f"{directory}/data",
            "-U",
            _USER,
            "-A",
            "trust",
            "--no-sync",
            cwd=directory,
            **as_user,
        )
        chosen = {
            "port": str(server.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            **settings,
        }
        words = [_program("postgres"), "-D", f"{directory}/data", "-F"]
        for name, value in chosen.items():
            words += ["-c", f"{name}={value}"]
        with (
            (directory / "log").open("wb") as log,
            subprocess.Popen(words, cwd=directory, stdout=log, stderr=log, **as_user) as process,
        ):
            try:
                wait_for(server.answers, timeout_s=_START_TIMEOUT_S)
                yield server
            finally:
                process.send_signal(signal.SIGINT)  # it breaks connections off; SIGTERM waits for clients
                process.wait(_START_TIMEOUT_S)
    finally:
        shutil.rmtree(directory)


def _program(name: str) -> str:
    found = shutil.which(name, path=_PLACES)
    assert found is not None
    return found


def _run(name: str, *words: str, **how: Any) -> None:
    done = subprocess.run(
        [_program(name), *words], capture_output=True, text=True, timeout=60, check=False, **how
    )
    assert done.returncode == 0, done.stderr
