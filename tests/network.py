"""Machines with networks of their own on this one, and cuts between them, for tests that run as root.

Each :class:`Host` is a network namespace with one address, and all of them hang on a namespace that is the router.
A cut is a rule of the router that drops what one host sends to another, without a word: that is what a broken line
looks like, whereas a closed port or a firewall that rejects says something. TCP goes on where it was when the line is
mended.

Nothing has to be tidied up, whatever happens: a namespace has no name, it lives as long as this process has its
descriptor open or a process runs in it, and its links go with it. ``iptables`` is not needed.
"""

import contextlib
import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_MINE: Final = "/proc/thread-self/ns/net"
_libc: Final = ctypes.CDLL(None, use_errno=True)


class NoNetworksError(Exception):
    """Networks cannot be made here; the text says what is missing."""


class Host:
    """One machine.

    Args:
        name: for messages.
        address: IPv4, of its only interface.
    """

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self._descriptor = _new_namespace()

    def __repr__(self) -> str:
        return self.name

    @property
    def path(self) -> str:
        """Of the namespace, for ``ip link ... netns``."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """The calling thread is on this host: its sockets, and the threads and processes that it starts."""
        home = os.open(_MINE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_libc.setns(self._descriptor, _CLONE_NEWNET))
            try:
                yield
            finally:
                _check(_libc.setns(home, _CLONE_NEWNET))
        finally:
            os.close(home)

    def close(self) -> None:
        os.close(self._descriptor)


class Network:
    """Hosts that reach each other, but for what is cut.

    Args:
        names: of the hosts.

    Raises:
        NoNetworksError: no root, no ``ip``, or the kernel has no part of what is needed.
    """

    def __init__(self, *names: str) -> None:
        if os.geteuid() != 0:
            raise NoNetworksError("networks of their own need root")
        self._cuts: set[tuple[str, str]] = set()
        self._open = contextlib.ExitStack()
        try:
            self._router = self._host("router", 254)
            self._hosts = {name: self._host(name, number) for number, name in enumerate(names, 1)}
            self._wire()
        except (OSError, subprocess.CalledProcessError) as error:
            said = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else ""
            self.close()
            raise NoNetworksError(f"networks of their own cannot be made here: {error} {said}") from error

    def _host(self, name: str, number: int) -> Host:
        host = Host(name, f"10.0.0.{number}")
        self._open.callback(host.close)
        return host

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def _wire(self) -> None:
        router = self._router
        with router.entered():
            _ip("link", "set", "lo", "up")
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
            for number, host in enumerate(self._hosts.values()):
                port = f"to{number}"
                _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.path)
                _ip("address", "add", f"{router.address}/32", "dev", port)
                _ip("link", "set", port, "up")
                _ip("route", "add", f"{host.address}/32", "dev", port)
        for host in self._hosts.values():
            with host.entered():
                _ip("link", "set", "lo", "up")
                _ip("address", "add", f"{host.address}/32", "dev", "eth0")
                _ip("link", "set", "eth0", "up")
                _ip("route", "add", f"{router.address}/32", "dev", "eth0")
                _ip("route", "add", "default", "via", router.address)
        # Whether the router can cut at all.
        one, other, *_ = self._hosts.values()
        self.cut_one_way(one, other)
        self.heal()

    def cut_one_way(self, source: Host, target: Host) -> None:
        """Nothing that ``source`` sends reaches ``target``."""
        pair = source.address, target.address
        if pair not in self._cuts:
            self._rule("add", *pair)
            self._cuts.add(pair)

    def cut(self, one: Host, *others: Host) -> None:
        """Nothing goes between a host and each of the others, either way."""
        for other in others:
            self.cut_one_way(one, other)
            self.cut_one_way(other, one)

    def heal(self) -> None:
        """Everybody reaches everybody again."""
        while self._cuts:
            pair = min(self._cuts)
            self._rule("delete", *pair)
            self._cuts.remove(pair)

    def _rule(self, verb: str, source: str, target: str) -> None:
        with self._router.entered():
            _ip("rule", verb, "from", source, "to", target, "blackhole")

    def close(self) -> None:
        """Forget all hosts; their networks go when the last process in them has ended."""
        self._open.close()

    def __enter__(self) -> "Network":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def _new_namespace() -> int:
    """A descriptor of a new namespace. A thread makes it, and ends: this one stays where it is."""
    made: list[int | OSError] = []

    def make() -> None:
        try:
            _check(_libc.unshare(_CLONE_NEWNET))
            made.append(os.open(_MINE, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    (outcome,) = made
    if isinstance(outcome, OSError):
        raise outcome
    return outcome


def _check(result: int) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"network namespaces: {os.strerror(code)}")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
