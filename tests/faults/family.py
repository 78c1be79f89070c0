"""The processes of a broker, seen from outside."""

import contextlib
import time

import psutil

from pkafka.testing import Broker


def family(broker: Broker) -> dict[str, psutil.Process]:
    """The children of the supervisor by name: ``control``, ``worker-0``, ``cleaner``; ended ones left out."""
    found = {}
    for child in psutil.Process(broker.pid).children():
        if is_alive(child):
            with contextlib.suppress(psutil.NoSuchProcess):
                found[child.name().removeprefix("pkafka-")] = child
    return found


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; one that has ended and waits for its parent to notice does not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill(broker: Broker, name: str) -> psutil.Process:
    """kill -9 of one process of the broker, which is dead when this returns."""
    victim = family(broker)[name]
    victim.kill()
    return victim


def replaced(broker: Broker, victim: psutil.Process, name: str, *, timeout_s: float = 5.0) -> psutil.Process:
    """The process that took the place of ``victim``."""
    deadline = time.monotonic() + timeout_s
    while True:
        successor = family(broker).get(name)
        if successor is not None and successor.pid != victim.pid:
            return successor
        assert time.monotonic() < deadline, f"{name} was not replaced within {timeout_s:.1f} s"
        time.sleep(0.005)


def exit_code(broker: Broker, *, timeout_s: float = 15.0) -> int:
    """How a broker ended that nobody told to."""
    code = psutil.Process(broker.pid).wait(timeout_s)
    broker.kill()  # it is over; this waits for its children
    assert code is not None
    return int(code)
