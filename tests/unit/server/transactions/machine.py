"""Plays scripts on one transactional id: no broker, no clock; a record is written when the script says so.

A block is commands, a line of dashes, and what came of them: the answer of each command, and the facts where they
changed. ``init [producer] [timeout=MS] [new=ID]``, ``add PRODUCER PARTITION...``, ``verify PRODUCER PARTITION...``,
``end PRODUCER commit|abort``, ``fence``, ``written`` and ``lost`` for the record in hand, ``markers`` when all are
written, ``restart``, ``wait MS``, ``epoch N`` for an id that has come that far, ``timed out?`` and ``expired?``. A
producer is its id and epoch: 7/0.
"""

from collections.abc import Callable, Sequence

from pkafka.errors import ErrorCode
from pkafka.server.transactions.records import decode_value, encode_value
from pkafka.server.transactions.transaction import (
    Decision,
    Facts,
    PartitionKey,
    Producer,
    Transaction,
    unused,
)

EXPIRATION_MS = 10_000
TIMEOUT_MS = 1_000


class Machine:
    """One transactional id, which the producer id 7 has first."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.transaction = Transaction(unused(7, TIMEOUT_MS, 0))
        self.log: bytes | None = None
        """The value of the last record that was written."""
        self._shown = ""

    def play(self, line: str) -> list[str]:
        """Do what a line says; returns what came of it."""
        verb, *words = line.split()
        commands: dict[str, Callable[[Sequence[str]], str]] = {
            "init": self._init,
            "add": self._add,
            "verify": self._verify,
            "end": self._end,
            "fence": lambda _words: self._told(self.transaction.fence(self.now_ms)),
            "written": self._written,
            "lost": self._lost,
            "markers": self._markers,
            "restart": self._restart,
            "wait": self._wait,
            "epoch": self._epoch,
            "timed": lambda _words: str(self.transaction.is_timed_out(self.now_ms)),
            "expired?": lambda _words: str(self.transaction.is_expired(self.now_ms, EXPIRATION_MS)),
        }
        answer = commands[verb](words)
        shown = self.shown()
        lines = [f"{verb}: {answer}"] if answer else []
        if shown != self._shown:
            self._shown = shown
            lines.append(shown)
        return lines

    def shown(self) -> str:
        """The facts, and what is to follow them."""
        transaction = self.transaction
        following = "" if transaction.pending is None else f" -> {transaction.pending.state.text}"
        return _shown(transaction.facts) + following

    def _init(self, words: Sequence[str]) -> str:
        options = dict(word.split("=") for word in words if "=" in word)
        named = [word for word in words if "=" not in word]
        expected = producer(named[0]) if named else None
        new = int(options["new"]) if "new" in options else None
        assert (new is not None) == self.transaction.needs_producer_id(expected)
        decision = self.transaction.init(
            expected,
            timeout_ms=int(options.get("timeout", TIMEOUT_MS)),
            now_ms=self.now_ms,
            new_producer_id=new,
        )
        return self._told(decision)

    def _add(self, words: Sequence[str]) -> str:
        return self._told(self.transaction.add(producer(words[0]), map(partition, words[1:]), self.now_ms))

    def _verify(self, words: Sequence[str]) -> str:
        found = self.transaction.verify(producer(words[0]), map(partition, words[1:]))
        if isinstance(found, ErrorCode):
            return found.name
        return " ".join(f"{topic}-{index}={code.name}" for (topic, index), code in found.items())

    def _end(self, words: Sequence[str]) -> str:
        is_commit = {"commit": True, "abort": False}[words[1]]
        return self._told(self.transaction.end(producer(words[0]), self.now_ms, is_commit=is_commit))

    def _told(self, decision: Decision) -> str:
        return decision.name if isinstance(decision, ErrorCode) else "to write"

    def _written(self, _words: Sequence[str]) -> str:
        assert self.transaction.pending is not None
        self.log = encode_value(self.transaction.pending)
        self.transaction.stored()
        if self.transaction.facts.state.is_decided:
            self.transaction.complete(self.now_ms)
        return ""

    def _lost(self, _words: Sequence[str]) -> str:
        self.transaction.failed()
        return ""

    def _markers(self, words: Sequence[str]) -> str:
        assert self.transaction.facts.state.is_decided
        return self._written(words)

    def _restart(self, _words: Sequence[str]) -> str:
        assert self.log is not None
        self.transaction = Transaction(decode_value(self.log))
        if self.transaction.facts.state.is_decided:
            self.transaction.complete(self.now_ms)
        return ""

    def _epoch(self, words: Sequence[str]) -> str:
        self.transaction = Transaction(unused(7, TIMEOUT_MS, 0)._replace(producer_epoch=int(words[0])))
        return ""

    def _wait(self, words: Sequence[str]) -> str:
        self.now_ms += int(words[0])
        return ""


def producer(text: str) -> Producer:
    """A producer as scripts write it."""
    producer_id, epoch = text.split("/")
    return Producer(int(producer_id), int(epoch))


def partition(text: str) -> PartitionKey:
    """A partition as scripts write it."""
    topic, _, index = text.rpartition("-")
    return topic, int(index)


def _shown(facts: Facts) -> str:
    partitions = " ".join(f"{topic}-{index}" for topic, index in facts.partitions)
    last = "" if facts.last_epoch < 0 else f" after {facts.last_epoch}"
    return (
        f"  {facts.state.text} {facts.producer_id}/{facts.producer_epoch}{last} [{partitions}]"
        f" begun {facts.start_ms} changed {facts.update_ms}"
    )


def played(text: str) -> str:
    """The script with what really came of each block."""
    machine = Machine()
    written: list[str] = []
    for block in text.split("\n\n"):
        commands = block.split("\n----")[0].splitlines()
        came = [
            line for command in commands if command and command[0] != "#" for line in machine.play(command)
        ]
        written.append("\n".join([*commands, "----", *came]))
    return "\n\n".join(written) + "\n"
