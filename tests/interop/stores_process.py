"""The process of ``ConnectStoresOracle.java``."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.interop.kafka import JAVA_SOURCES, java_program

_END_TIMEOUT_S: Final = 60


@contextmanager
def stores_process(class_path: str) -> "Iterator[subprocess.Popen[str]]":
    """A running oracle.

    Args:
        class_path: with the compiled oracle at its end.
    """
    logging = f"-Dlog4j.configuration=file:{JAVA_SOURCES / 'log4j.properties'}"
    flags = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", logging)
    process = subprocess.Popen(
        [java_program("java"), *flags, "-cp", class_path, "ConnectStoresOracle"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
