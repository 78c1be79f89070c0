"""The id of this broker's session with ZooKeeper, kept for its next life.

A broker that is killed leaves a session that lives on for a while, and with it nodes that say that the broker is alive.
A broker that starts in the same data directory holds the directory's lock, so the former broker is dead, and its nodes
may be replaced at once. A copy of the directory proves nothing, as the original broker may be alive; the file names the
inode, by which a copy is recognised.

After a restart of the machine the nodes may not be replaced: records that were acknowledged but not on the disk may be
lost, and a replica that led or was in sync must not go on as if it had them. Such a broker waits until its session has
ended, as Kafka's brokers always do, and stays away for a moment longer, in which the controller takes its leaders and
its places in ISRs away.
"""

import logging
import os
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")
"""The file in which Linux has the id of this run of the machine."""


def read_session(path: Path) -> int | None:
    """The former run's session; None unless it was in this very directory, and in this run of the machine.

    Args:
        path: of the file.
    """
    try:
        session, is_ours = _read(path)
        return session if is_ours else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        log.warning(
            "%s cannot be read, so this start may wait for the session of the one before: %s", path, error
        )
        return None


def may_lack_records(path: Path) -> bool:
    """Whether a broker has run here that may have acknowledged records that are lost.

    That is so when the machine was restarted since, when this is a copy, or when a power cut has damaged the file.

    Args:
        path: of the file.
    """
    try:
        return not _read(path)[1]
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def _read(path: Path) -> tuple[int, bool]:
    """Read the session, and whether it was in this very directory and in this run of the machine."""
    session, place, boot = path.read_text(encoding="ascii").split()
    return int(session, 16), (place, boot) == (_place(path), _boot_id())


def write_session(path: Path, session_id: int) -> None:
    """Keep the id of the session that has just begun."""
    try:
        boot = _boot_id()
        if boot is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(f"{session_id:x} {_place(path)} {boot}\n", encoding="ascii")
    except OSError as error:
        log.warning("%s cannot be written, so a start after a crash will wait: %s", path, error)


def _place(path: Path) -> str:
    found = os.stat(path.parent)
    return f"{found.st_dev:x}:{found.st_ino:x}"


def _boot_id() -> str | None:
    """The id of this run of the machine; None where the kernel has none: then any start may follow a restart of it."""
    try:
        return BOOT_ID_FILE.read_text(encoding="ascii").strip() or None
    except OSError:
        return None
