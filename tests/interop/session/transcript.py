"""The files of the session: command lines with what Apache Kafka's tools answered, to be read by people.

One entry of a file::

    $ topics --bootstrap-server BROKER --describe --topic @orders    kafka-topics.sh, and pk-topics
    | a line of standard input
    mask rates                 what else differs from run to run; see MASKS
    unordered                  the order of the lines says nothing
    eventually                 brokers take their time: asked again until it is as expected
    > a line of standard output of Kafka's tool; a last line "~" where no line end follows
    = 1 2                      statuses: of Kafka's tool (and pk-* with PK_COMPAT=3.9), of pk-*; one where they agree
    = 1 0 0                    ... and a third of pk-* with PK_COMPAT=3.9, where it is not Kafka's
    ! joined-rows              why pk-* does otherwise; a heading of docs/differences.md
    >> a line of what pk-* prints instead; without any it prints nothing, or what follows from the reason (DERIVED)
    same output                ... or it ends otherwise, and prints what Kafka's does

Between entries: ``file plan.json`` (its lines follow as ``| ...``), ``member @group @topic`` and ``leave`` (a consumer
joins, and is gone again), ``gone @topic`` (wait until it is deleted), and comments. A file that has a line
``only kafka`` is about what pkafka does not serve, and is run on Apache Kafka alone.

``BROKER``, ``LOGS`` and ``DIR`` are the address, the log directory and the folder of the files, ``ZOOKEEPER`` the
address of what stores the cluster's nodes (only on Apache Kafka). ``@orders`` stands for
a topic or group that every run calls otherwise, at the same length: both makes find the same state on one cluster.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
_NAME: Final = re.compile(r"@(?=[a-z])([a-z0-9._-]*)")
_STATUS: Final = re.compile(r"= (\d+)(?: (\d+))?(?: (\d+))?")

_ALWAYS: Final = (
    (re.compile(r"TopicId: \S{22}"), "TopicId: #"),
    (re.compile(r"Cluster ID: \S{22}"), "Cluster ID: #"),
    (re.compile(r"\b(CreateTime|LogAppendTime|timestamp)(:|: |\":)\d{13}"), r"\1\2#"),
    (re.compile(r"\bcrc: \d+"), "crc: #"),
    (re.compile(r"\bproducerId: \d+"), "producerId: #"),
    (re.compile(r"\btopic_id: \S{22}"), "topic_id: #"),
    (re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "-UUID"),
)
# What a broker serves is the broker's affair: how it is shown is compared here, what it is elsewhere.
_VERSIONS: Final = re.compile(r"(?<=\): )(UNSUPPORTED|\d+( to \d+)? \[usable: \d+\])(?=,?$)", re.MULTILINE)
# Where a tool prints the stack of an exception: all from the line that begins with its class.
_STACK: Final = re.compile(r"^\w+(\.[\w$]+)+(: .*)?\n(.*\n)*", re.MULTILINE)
MASKS: Final[Mapping[str, tuple[tuple[re.Pattern[str], str], ...]]] = {
    "versions": ((_VERSIONS, "#"),),
    "stack": ((_STACK, "STACK\n"),),
    # What Kafka's tool shows of stored credentials beside the iterations.
    "secrets": ((re.compile(r"\b(salt|stored_key|server_key)=[A-Za-z0-9+/=]+,"), ""),),
    # Digits behind a point are counted, whole numbers of milliseconds are not; a date keeps its form.
    "rates": (
        # What a load generator says every five seconds, if it takes so long.
        (re.compile(r"^\d+ records sent, .* ms max latency\.\n", re.MULTILINE), ""),
        (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"), "DATE"),
        (re.compile(r"(?<=avg_throughput\":)[\d.E]+"), "#"),
        (re.compile(r"-?\b\d+\.(\d+)"), lambda found: "#." + "#" * len(found[1])),  # type: ignore[dict-item]
        (re.compile(r"\b\d+ ms\b"), "# ms"),
        (re.compile(r"(?<=, )-?\d+, -?\d+(?=, #)"), "#, #"),
        (re.compile(r"(?<== )\d+(?=,|$)", re.MULTILINE), "#"),
        (re.compile(r"^(\d+\t)[#.]+$", re.MULTILINE), r"\1#"),
    ),
}
DERIVED: Final[Mapping[str, Callable[[str], str]]] = {
    "no-last-line-end": lambda text: f"{text}\n",
    "stacks": lambda text: text.removesuffix("STACK\n"),
}

ONLY_WITHOUT_COMPAT: Final = (
    "help",
    "more-files-of-a-log",
    "properties-without-a-value",
    "words-without-a-flag",
)
"""Reasons that do not hold with PK_COMPAT=3.9: pk-* does what Kafka's tools do then."""


@dataclass(frozen=True)
class Answer:
    """What a command said and how it ended."""

    stdout: str
    status: int


@dataclass
class Command:
    """One command line and what is expected of it."""

    line: int
    text: str
    stdin: str = ""
    mask: list[str] = field(default_factory=list)
    unordered: bool = False
    eventually: bool = False
    kafka: Answer = Answer("", 0)
    status: int = 0
    """Of pk-* without PK_COMPAT."""
    compatible_status: int = 0
    """Of pk-* with it."""
    reason: str | None = None
    stdout: str = ""
    """Of pk-*, where a reason says that it is another and not how it follows from Kafka's."""
    is_same: bool = False
    """Whether it is Kafka's in spite of a reason, which is about the statuses then."""

    def expected(self, *, ours: bool, compatible: bool) -> Answer:
        """What either make answers."""
        if not ours:
            return self.kafka
        if compatible and self.reason in ONLY_WITHOUT_COMPAT:
            return self.kafka
        return Answer(self.our_stdout, self.compatible_status if compatible else self.status)

    @property
    def our_stdout(self) -> str:
        """What pk-* prints."""
        if self.reason is None or self.is_same:
            return self.kafka.stdout
        return DERIVED[self.reason](self.kafka.stdout) if self.reason in DERIVED else self.stdout

    @property
    def needs_reason(self) -> bool:
        """Whether pk-* does what has to be explained: other statuses have to be only where both are meant to agree."""
        return (
            self.our_stdout != self.kafka.stdout
            or self.compatible_status != self.kafka.status
            or (self.status == 0) > (self.kafka.status == 0)
        )


@dataclass
class Step:
    """What happens between command lines; a comment or a blank line, where the verb is empty."""

    verb: str
    words: list[str]
    text: str = ""
    """The content of a file, or the comment."""


@dataclass
class Session:
    """A file of the session."""

    path: Path
    items: list[Command | Step]

    @property
    def commands(self) -> list[Command]:
        """The command lines."""
        return [each for each in self.items if isinstance(each, Command)]

    @property
    def names(self) -> set[str]:
        """Of topics and groups, without the ``@``."""
        texts = [f"{each.text}\n{each.stdin}" for each in self.commands]
        texts += [
            f"{each.text} {' '.join(each.words)}"
            for each in self.items
            if isinstance(each, Step) and each.verb
        ]
        return {found[1] for text in texts for found in _NAME.finditer(text)}

    @property
    def is_for_kafka_alone(self) -> bool:
        """Whether pkafka does not serve what it is about."""
        return any(isinstance(each, Step) and each.verb == "only" for each in self.items)

    def render(self) -> str:
        """The text of the file."""
        return "".join(line + "\n" for item in self.items for line in _render(item))


class TranscriptError(Exception):
    """A session file has a line that has no meaning where it stands."""


def sessions() -> list[Path]:
    """The files, in order."""
    return sorted(HERE.glob("*.session"))


def read_session(path: Path) -> Session:
    """Parse a file.

    Raises:
        TranscriptError: with the path and the number of the line.
    """
    items: list[Command | Step] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        last = items[-1] if items else Step("", [])
        if line.startswith("$ "):
            items.append(Command(number, line[2:]))
        elif not line or line.startswith("#"):
            items.append(Step("", [], line))
        elif line.split()[0] in ("file", "member", "leave", "gone", "only"):
            verb, *words = line.split()
            items.append(Step(verb, words))
        elif isinstance(last, Command):
            _add(last, line, f"{path.name}:{number}")
        elif last.verb == "file" and line.startswith("|"):
            last.text += line[2:] + "\n"
        else:
            raise TranscriptError(f"{path.name}:{number}: {line}")
    return Session(path, items)


def _add(command: Command, line: str, place: str) -> None:
    if line.startswith("|"):
        command.stdin += line[2:] + "\n"
    elif line.startswith("mask "):
        command.mask += line.split()[1:]
    elif line == "unordered":
        command.unordered = True
    elif line == "eventually":
        command.eventually = True
    elif line == "same output":
        command.is_same = True
    elif line.startswith(">>"):
        command.stdout += line[3:] + "\n"
    elif line.startswith(">"):
        command.kafka = Answer(command.kafka.stdout + line[2:] + "\n", command.kafka.status)
    elif line == "~":
        command.kafka = Answer(command.kafka.stdout.removesuffix("\n"), command.kafka.status)
    elif found := _STATUS.fullmatch(line):
        command.kafka = Answer(command.kafka.stdout, int(found[1]))
        command.status = int(found[2] or found[1])
        command.compatible_status = int(found[3] or found[1])
    elif line.startswith("! "):
        command.reason = line[2:]
    else:
        raise TranscriptError(f"{place}: {line}")


def _render(item: Command | Step) -> Iterator[str]:
    if isinstance(item, Step):
        if not item.verb:
            yield item.text
        else:
            yield " ".join([item.verb, *item.words])
            yield from _quoted("|", item.text)
        return
    yield f"$ {item.text}"
    yield from _quoted("|", item.stdin)
    if item.mask:
        yield "mask " + " ".join(item.mask)
    if item.unordered:
        yield "unordered"
    if item.eventually:
        yield "eventually"
    yield from _quoted(">", item.kafka.stdout)
    if item.kafka.stdout and not item.kafka.stdout.endswith("\n"):
        yield "~"
    statuses = [item.kafka.status, item.status, item.compatible_status]
    if statuses[2] == statuses[0]:
        del statuses[2:]
        if statuses[1] == statuses[0]:
            del statuses[1:]
    yield " ".join(["=", *map(str, statuses)])
    if item.reason is not None:
        yield f"! {item.reason}"
        if item.is_same:
            yield "same output"
        elif item.reason not in DERIVED:
            yield from _quoted(">>", item.stdout)


def _quoted(mark: str, text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"{mark} {line}" if line else mark


class Stage:
    """One run of a session file by one make on one system: what its words stand for.

    Args:
        session: the file.
        letter: what this run puts in the place of ``@``; runs on one system take different ones.
        bootstrap, log_dir: of the broker.
        zookeeper: of the broker, if it has one.
        folder: for the files.
    """

    def __init__(
        self,
        session: Session,
        letter: str,
        *,
        bootstrap: str,
        log_dir: Path,
        folder: Path,
        zookeeper: str | None = None,
    ) -> None:
        self.folder = folder
        self._letter = letter
        self._words = {"BROKER": bootstrap, "LOGS": str(log_dir), "DIR": str(folder)}
        if zookeeper is not None:
            self._words["ZOOKEEPER"] = zookeeper
        self._names = sorted(session.names, key=len, reverse=True)

    def real(self, text: str) -> str:
        """The text with what its words stand for."""
        for word, meaning in self._words.items():
            text = text.replace(word, meaning)
        return _NAME.sub(rf"{self._letter}\1", text)

    def shown(self, stdout: str, command: Command) -> str:
        """Standard output as the file has it."""
        for word, meaning in self._words.items():
            stdout = stdout.replace(meaning, word)
        for name in self._names:
            stdout = stdout.replace(self._letter + name, f"@{name}")
        for pattern, replacement in (*_ALWAYS, *(each for mask in command.mask for each in MASKS[mask])):
            stdout = pattern.sub(replacement, stdout)
        if command.unordered:
            body = stdout.removesuffix("\n")
            stdout = "\n".join(sorted(body.split("\n"))) + stdout[len(body) :]
        # What a tool says of its flags is not compared.
        return "HELP\n" if stdout.lower().startswith("usage: ") else stdout
