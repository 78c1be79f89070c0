"""The processes of a broker, seen from outside."""

import contextlib
import time

import psutil

from pkafka.testing import Broker
from tests.cluster import ClusterBroker
from tests.faults.wire import Wire, eventually


def family(broker: Broker | ClusterBroker) -> dict[str, psutil.Process]:
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


def kill(broker: Broker | ClusterBroker, name: str) -> psutil.Process:
    """kill -9 of one process of the broker, which is dead when this returns."""
    victim = family(broker)[name]
    victim.kill()
    eventually(lambda: not is_alive(victim))
    return victim


def replaced(
    broker: Broker | ClusterBroker, victim: psutil.Process, name: str, *, timeout_s: float = 60.0
) -> psutil.Process:
    """The process that took the place of ``victim``."""
    deadline = time.monotonic() + timeout_s
    while True:
        successor = family(broker).get(name)
        if successor is not None and successor.pid != victim.pid:
            return successor
        assert time.monotonic() < deadline, f"{name} was not replaced within {timeout_s:.1f} s"
        time.sleep(0.005)


def begun_to_stop(broker: Broker | ClusterBroker) -> None:
    """Wait until the supervisor has taken notice of a signal: another one of the same kind would be lost before."""
    eventually(lambda: "Stopping (signal" in broker.log_file.read_text(errors="replace"))


def holder(broker: Broker, client_port: int) -> str | None:
    """The name of the child that has the connection which a client made from that port; None when nobody has it."""
    for name, child in family(broker).items():
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(one.raddr and one.raddr.port == client_port for one in child.net_connections("tcp")):
                return name
    return None


def connect_to(broker: Broker, name: str) -> Wire:
    """A connection that is served by the worker of that name; the kernel spreads them over all."""
    while True:
        wire = Wire(broker.bootstrap)
        with contextlib.ExitStack() as stack:
            stack.push(wire)  # a process may die while it is looked for
            port = wire.sock.getsockname()[1]
            if eventually(lambda: holder(broker, port)) == name:  # noqa: B023 - called at once
                stack.pop_all()
                return wire
