"""The id of this broker's session with ZooKeeper, kept for its next life.

A broker that is killed leaves a session behind that lives on for a while, and with it nodes that say that the broker is
alive. Whoever starts in the same data directory holds its lock, so that nobody can be alive in it: those nodes may be
replaced at once. A copy of the directory is another place, in which the original may well be alive; it is told by its
inode.
"""

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


def read_session(path: Path) -> int | None:
    """The session of the life before; None when there was none, or none in this very directory.

    Args:
        path: of the file.
    """
    try:
        session, place = path.read_text(encoding="ascii").split()
        return int(session, 16) if place == _place(path) else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning(
            "%s cannot be read, so this start may wait for the session of the one before: %s", path, error
        )
        return None


def write_session(path: Path, session_id: int) -> None:
    """Keep the id of the session that has just begun."""
    try:
        path.write_text(f"{session_id:x} {_place(path)}\n", encoding="ascii")
    except OSError as error:
        log.warning("%s cannot be written, so a start after a crash will wait: %s", path, error)


def _place(path: Path) -> str:
    found = os.stat(path.parent)
    return f"{found.st_dev:x}:{found.st_ino:x}"
