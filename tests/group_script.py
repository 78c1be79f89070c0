"""Scripts of what members of a classic group ask, for the machine alone and for brokers of either kind.

A script is a list of steps: commands, ``----``, what follows, an empty line; ``#`` begins a comment. Members have
names; what a name was given (member id, generation, options) is remembered and sent with its next request. The answers
are told in the order of names, because connections have none between them, and the group's description where it
changed.

    join a topics=t,u          JoinGroup, sent again with the id that MEMBER_ID_REQUIRED brings, unless "once"
    sync a assign=a:0,b:1      SyncGroup; without assign= from a follower
    heartbeat a                Heartbeat
    commit a                   OffsetCommit
    leave a b, leave i=x       LeaveGroup, of instance ids with i=
    hangup a                   a's connections are gone; what comes on them is not told
    wait ms=300                time passes
    restart                    the coordinator begins anew with what it has written; on a broker: it has been restarted

Options of all: version=, as= (another's id, "-" none, "x!" the text x), generation=, instance= ("-" none). Of join:
session=, rebalance=, type=, protocols=range,roundrobin, topics=; of sync: type=, protocol=.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from pkafka.errors import ErrorCode
from pkafka.protocol.codec import decode_prefix, encode
from pkafka.protocol.messages import heartbeat, join_group, leave_group, offset_commit, sync_group
from pkafka.protocol.messages.records.consumer_protocol import ConsumerProtocolSubscription
from pkafka.protocol.schema import Message

GROUP_TOPIC: Final = "t"
"""Commits are made for partition 0 of this topic, which brokers must have."""

Settings: TypeAlias = dict[str, str]
_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_JOIN_DEFAULTS: Final = {
    "type": "consumer",
    "protocols": "range",
    "topics": GROUP_TOPIC,
    "session": "30000",
    "rebalance": "30000",
}
_VERSIONS: Final = {"join": 9, "sync": 5, "heartbeat": 4, "commit": 8, "leave": 5}


@dataclass(slots=True)
class Actor:
    """A member of a script."""

    name: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    protocol: tuple[str | None, str | None] = (None, None)
    options: Settings = field(default_factory=lambda: dict(_JOIN_DEFAULTS))


@dataclass(frozen=True, slots=True)
class Command:
    """One line of a script."""

    verb: str
    names: tuple[str, ...]
    options: Mapping[str, str]

    @classmethod
    def parse(cls, line: str) -> "Command":
        verb, *words = line.split("#")[0].split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        return cls(verb, tuple(word for word in words if "=" not in word), options)


@dataclass(slots=True)
class Step:
    """Comments in front, commands, and what is to follow."""

    comments: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    outcome: list[str] = field(default_factory=list)


def steps_of(text: str) -> list[Step]:
    """The steps of a script."""
    steps: list[Step] = []
    for block in text.strip("\n").split("\n\n"):
        step = Step()
        lines = iter(block.splitlines())
        for line in lines:
            if line == "----":
                step.outcome = list(lines)
            elif line.startswith("#"):
                step.comments.append(line)
            else:
                step.commands.append(line)
        steps.append(step)
    return steps


def text_of(steps: Iterable[Step]) -> str:
    """The script of ``steps``; inverse of :func:`steps_of`."""
    blocks = [
        [*step.comments, *step.commands, *(["----"] if step.commands else []), *step.outcome]
        for step in steps
    ]
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


class Player(Protocol):
    """Plays steps against something that has groups; see :class:`Cast` for what is common."""

    def play(self, command: Command) -> None: ...

    def outcome(self, expected: Sequence[str]) -> list[str]: ...


def played(steps: Iterable[Step], player: Player) -> Iterator[Step]:
    """``steps`` with what followed in place of what was to follow."""
    for step in steps:
        for line in step.commands:
            player.play(Command.parse(line))
        yield Step(step.comments, step.commands, player.outcome(step.outcome))


class Cast:
    """Who is in a script: makes their requests and tells their answers."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.actors: dict[str, Actor] = {}
        self._names: dict[str, str] = {"": "-"}

    def __getitem__(self, name: str) -> Actor:
        return self.actors.setdefault(name, Actor(name))

    def name_of(self, member_id: str) -> str:
        """Who has ``member_id``; for ids that nobody was told yet, what they begin with."""
        return self._names.get(member_id) or _UUID.sub("", member_id)

    # -- requests --

    def request(self, command: Command) -> tuple[Message, int]:
        """The message that ``command`` sends, and its version."""
        version = int(command.options.get("version", _VERSIONS[command.verb]))
        if command.verb == "leave":
            return self._leave(command, version), version
        actor = self[command.names[0]]
        options = command.options
        if command.verb == "sync" and "version" not in options and actor.protocol[1] is None:
            version = 4  # the next one wants to know a protocol
        if "instance" in options:
            actor.instance_id = None if options["instance"] == "-" else options["instance"]
        return getattr(self, f"_{command.verb}")(actor, options), version

    def _id(self, actor: Actor, options: Mapping[str, str]) -> str:
        given = options.get("as")
        if given is None:
            return actor.member_id
        if given.endswith("!"):
            return given[:-1]
        return "" if given == "-" else self[given].member_id

    def _generation(self, actor: Actor, options: Mapping[str, str]) -> int:
        return int(options.get("generation", actor.generation))

    def _join(self, actor: Actor, options: Mapping[str, str]) -> Message:
        actor.options.update(options)
        wanted = actor.options
        metadata = (
            subscription(wanted["topics"].split(",")) if wanted["type"] == "consumer" else wanted["topics"]
        )
        return join_group.JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=int(wanted["session"]),
            rebalance_timeout_ms=int(wanted["rebalance"]),
            member_id=self._id(actor, options),
            group_instance_id=actor.instance_id,
            protocol_type=wanted["type"],
            protocols=[
                join_group.JoinGroupRequestProtocol(
                    name=name, metadata=metadata.encode() if isinstance(metadata, str) else metadata
                )
                for name in wanted["protocols"].split(",")
                if name
            ],
        )

    def _sync(self, actor: Actor, options: Mapping[str, str]) -> Message:
        pairs = [pair.split(":") for pair in options.get("assign", "").split(",") if pair]
        return sync_group.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation(actor, options),
            member_id=self._id(actor, options),
            group_instance_id=actor.instance_id,
            protocol_type=options.get("type", actor.protocol[0]),
            protocol_name=options.get("protocol", actor.protocol[1]),
            assignments=[
                sync_group.SyncGroupRequestAssignment(
                    member_id=self[name].member_id, assignment=share.encode()
                )
                for name, share in pairs
            ],
        )

    def _heartbeat(self, actor: Actor, options: Mapping[str, str]) -> Message:
        return heartbeat.HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self._generation(actor, options),
            member_id=self._id(actor, options),
            group_instance_id=actor.instance_id,
        )

    def _commit(self, actor: Actor, options: Mapping[str, str]) -> Message:
        partition = offset_commit.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=""
        )
        return offset_commit.OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self._generation(actor, options),
            member_id=self._id(actor, options),
            group_instance_id=actor.instance_id,
            topics=[offset_commit.OffsetCommitRequestTopic(name=GROUP_TOPIC, partitions=[partition])],
        )

    def _leave(self, command: Command, version: int) -> Message:
        if version < 3:
            actor = self[command.names[0]]
            return leave_group.LeaveGroupRequest(
                group_id=self.group_id, member_id=self._id(actor, command.options)
            )
        members = [
            leave_group.MemberIdentity(
                member_id=self._id(self[name], command.options), group_instance_id=self[name].instance_id
            )
            for name in command.names
        ]
        if "i" in command.options:
            members.append(leave_group.MemberIdentity(member_id="", group_instance_id=command.options["i"]))
        return leave_group.LeaveGroupRequest(group_id=self.group_id, members=members)

    # -- answers --

    def hear(self, name: str, request: Message, answer: Any) -> None:
        """Remember what an answer to ``name`` gives."""
        if not isinstance(answer, join_group.JoinGroupResponse):
            return
        assert isinstance(request, join_group.JoinGroupRequest)
        actor = self[name]
        if answer.member_id and answer.member_id != request.member_id:
            self._names[answer.member_id] = name
            actor.member_id = answer.member_id
        if answer.generation_id != -1:
            actor.generation = answer.generation_id
            actor.protocol = answer.protocol_type or actor.options["type"], answer.protocol_name

    def told(self, name: str, answer: Any) -> list[str]:
        """What an answer says, as lines. To be asked when all answers of a step were heard: they name each other.

        Of a leader that left, Kafka's choice of the next one is arbitrary, so scripts leave it no choice.
        """
        actor = self[name]
        if isinstance(answer, join_group.JoinGroupResponse):
            return [f"  {name}: join {self._joined(actor, answer)}"]
        if isinstance(answer, sync_group.SyncGroupResponse):
            return [f"  {name}: sync {_synced(answer)}"]
        if isinstance(answer, offset_commit.OffsetCommitResponse):
            return [f"  {name}: commit {_error(answer.topics[0].partitions[0])}"]
        if isinstance(answer, leave_group.LeaveGroupResponse):
            lines = [f"  {name}: leave {_error(answer)}"] if answer.error_code or not answer.members else []
            for each in answer.members:
                who = self.name_of(each.member_id) if each.member_id else each.group_instance_id
                lines.append(f"  {who}: leave {_error(each)}")
            return lines
        return [f"  {name}: heartbeat {_error(answer)}"]

    def _joined(self, actor: Actor, answer: join_group.JoinGroupResponse) -> str:
        words = [] if not answer.error_code else [_error(answer)]
        if answer.member_id != actor.member_id:
            words.append(f"as={self.name_of(answer.member_id)}")
        if answer.generation_id != -1:
            words.append(f"generation={answer.generation_id} leader={self.name_of(answer.leader)}")
        if answer.protocol_type not in (None, "consumer"):
            words.append(f"type={answer.protocol_type}")
        if answer.protocol_name:
            words.append(answer.protocol_name)
        if answer.skip_assignment:
            words.append("skip")
        if answer.members:
            members = sorted(
                f"{self.name_of(each.member_id)}{_instance(each)}:{_topics(each.metadata)}"
                for each in answer.members
            )
            words.append(f"[{' '.join(members)}]")
        return " ".join(words)

    def described(self, state: str, protocol_type: str, protocol: str, members: Iterable[Any]) -> str:
        """The group's description as one line; ``members`` as in a DescribeGroups response."""
        words = sorted(
            f"{self.name_of(each.member_id)}{_instance(each)}"
            + (f":{bytes(each.member_assignment).decode()}" if state == "Stable" else "")
            for each in members
        )
        kind = "" if protocol_type in ("", "consumer") else f" {protocol_type}"
        return f"  group: {state}{kind}{protocol and ' '}{protocol} [{' '.join(words)}]"


def subscription(topics: Iterable[str]) -> bytes:
    """What a consumer says of itself: version 0 of its subscription."""
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def _topics(metadata: bytes) -> str:
    if not metadata.startswith(b"\0\0"):
        return bytes(metadata).decode()
    return ",".join(decode_prefix(ConsumerProtocolSubscription, 0, metadata, 2)[0].topics)


def _synced(answer: sync_group.SyncGroupResponse) -> str:
    if answer.error_code:
        return _error(answer)
    names = [name for name in (answer.protocol_type, answer.protocol_name) if name not in (None, "consumer")]
    return " ".join([bytes(answer.assignment).decode() or "nothing", *map(str, names)])


def _instance(member: Any) -> str:
    return "" if member.group_instance_id is None else f"/{member.group_instance_id}"


def _error(answer: Any) -> str:
    return ErrorCode(answer.error_code).name


SCRIPTS: Final = sorted((Path(__file__).parent / "scenarios" / "groups").glob("*.txt"))
"""The scripts that everything that has groups must play alike, with :data:`BROKER_SETTINGS`."""

BROKER_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": 500,
    "group.min.session.timeout.ms": 100,
    "group.max.size": 3,
}
