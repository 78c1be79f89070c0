"""Archives of loaded classes (JEP 350): a JVM that has one starts in half the time, or a third of it.

The tests start some two hundred JVMs, and what those do first is to read and check the same thousands of classes. One
run of each kind writes them into a file beside Kafka's jars; all later ones map that file. A JVM that finds another
version of itself or of a jar than the file was made with leaves the file alone.
"""

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

_QUIET: Final = "-Xlog:cds*=off"
"""What cannot be archived is told on standard output otherwise, where the tests look for a tool's words."""


def oracle_root() -> Path:
    """The directory of all that is fetched or made once for the tests."""
    return Path(os.environ.get("PKAFKA_ORACLE_DIR") or Path(__file__).parents[1] / ".oracle")


def with_archive(
    root: Path, kind: str, java: str, class_path: Sequence[Path], train: Callable[[tuple[str, ...]], object]
) -> tuple[str, ...]:
    """Flags by which a JVM uses the archive of its kind; none where it could not be made.

    Args:
        root: the directory of archives.
        kind: what the JVM does, for example ``broker``: each kind loads classes of its own.
        java: the program.
        class_path: the jars, in the order in which the JVM has them.
        train: runs such a JVM to its end with the given flags, when there is no archive yet.
    """
    facts = [_version(java), *(f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in class_path)]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    archive = root / f"{kind}-{key}.jsa"
    if not archive.exists():
        root.mkdir(parents=True, exist_ok=True)
        with (root / f".{kind}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists():
                partial = archive.with_suffix(".part")
                partial.unlink(missing_ok=True)
                train((f"-XX:ArchiveClassesAtExit={partial}", _QUIET))
                if not partial.exists():
                    # On a machine that is too busy the JVM may be killed while it writes. Then it only starts later.
                    return ()
                partial.rename(archive)
    return f"-XX:SharedArchiveFile={archive}", _QUIET


@cache
def _version(java: str) -> str:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60)
    return f"{os.path.realpath(java)}\n{done.stderr}"
