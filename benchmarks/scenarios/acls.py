"""What rules cost: small requests to a broker with few ACLs and with ten thousand, in turn, to the same broker."""

import socket
import statistics
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from benchmarks import wire
from benchmarks.model import Figure, Scenario, Settings
from benchmarks.systems import Target, scheduled_s
from pkafka.clients.admin import Admin
from pkafka.protocol.api import ApiKey
from pkafka.protocol.headers import encode_request
from pkafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pkafka.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    Entry,
    EntryFilter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
_TOPICS: Final = [f"asked-{number}" for number in range(10)]
_NAMES: Final = 1000
"""Literal ones, and as many prefixes."""
_PRINCIPALS: Final = 5
_ELSEWHERE: Final = "10.9.9.9"
"""Where the principals of the many rules are."""
_DEPTH: Final = 16
_FETCH_VERSION: Final = 11
_SIZE: Final = struct.Struct(">i")
_OF_ALL: Final = (
    (ResourceType.CLUSTER, CLUSTER_NAME),
    (ResourceType.TOPIC, WILDCARD),
    (ResourceType.GROUP, WILDCARD),
)


def _settings() -> Mapping[str, object]:
    return {"authorizer.class.name": _AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}


def _few() -> list[Acl]:
    """The client of the benchmark may do everything."""
    entry = Entry("User:ANONYMOUS", WILDCARD, Operation.ALL, Permission.ALLOW)
    return [Acl(Pattern(kind, name, PatternType.LITERAL), entry) for kind, name in _OF_ALL]


def _many() -> list[Acl]:
    """Rules about others, for topics of other names."""
    return [
        Acl(
            Pattern(ResourceType.TOPIC, f"team-{number:04d}-{kind.name.lower()}", kind),
            Entry(f"User:user-{user}", _ELSEWHERE, operation, Permission.ALLOW),
        )
        for kind, operation in (
            (PatternType.LITERAL, Operation.READ),
            (PatternType.PREFIXED, Operation.WRITE),
        )
        for number in range(_NAMES)
        for user in range(_PRINCIPALS)
    ]


def _prepare(target: Target, _settings: Settings) -> None:
    with Admin({"bootstrap.servers": target.broker.bootstrap}) as admin:
        _check(admin.create_acls(_few()).values())
    for topic in _TOPICS:
        wire.create_topic(target.address, topic, 1, {})
        wire.wait_for_leaders(target.address, topic, 1)
        wire.produce(target.address, topic, 0, wire.batch(100, 1, bytes(1000))[0])


def _check(outcomes: Iterable[object]) -> None:
    failed = next((each for each in outcomes if each is not None), None)
    if failed is not None:
        raise RuntimeError(f"a rule was refused: {failed}")


def _set(target: Target, *, many: bool) -> None:
    """Add the many rules, or remove them; wait until the broker knows."""
    with Admin({"bootstrap.servers": target.broker.bootstrap, "default.api.timeout.ms": 300_000}) as admin:
        there = AclFilter(entry=EntryFilter(host=_ELSEWHERE))
        if many:
            rules = _many()
            for begin in range(0, len(rules), 1000):
                _check(admin.create_acls(rules[begin : begin + 1000]).values())
        else:
            admin.delete_acls([there])
        wanted = 2 * _NAMES * _PRINCIPALS if many else 0
        while (found := sum(1 for _ in admin.describe_acls(there))) != wanted:
            if found > wanted and many:
                raise RuntimeError(f"{found} rules where {wanted} should be")
            time.sleep(0.1)


def _produce_frames() -> list[bytes]:
    records, _ = wire.batch(100, 1, bytes(1000))
    return [wire.produce_frame(topic, 0, records, 1, acks=1) for topic in _TOPICS]


def _fetch_frames() -> list[bytes]:
    wanted = [
        FetchTopic(
            topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)]
        )
        for topic in _TOPICS
    ]
    message = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, session_epoch=-1, topics=wanted)
    return [encode_request(ApiKey.FETCH, _FETCH_VERSION, 1, wire.CLIENT_ID, message)]


def _ask(target: Target, frames: Sequence[bytes], count: int) -> float:
    """Microseconds of the broker's processes for a request."""
    with socket.create_connection(target.address, wire.TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = _answers(connection)
        turns = [frames[number % len(frames)] for number in range(_DEPTH)]
        for _ in range(2):  # the first of them decides, and remembers
            connection.sendall(b"".join(turns))
            for _ in turns:
                next(answers)
        used = scheduled_s(target.broker)
        for _ in range(count // _DEPTH):
            connection.sendall(b"".join(turns))
            for _ in turns:
                next(answers)
        return (scheduled_s(target.broker) - used) / (count // _DEPTH * _DEPTH) * 1e6


def _answers(connection: socket.socket) -> Iterator[None]:
    stream = connection.makefile("rb", buffering=1 << 16)
    while True:
        (size,) = _SIZE.unpack(stream.read(_SIZE.size))
        stream.read(size)
        yield None


def _measure(target: Target, settings: Settings) -> dict[str, float]:
    """Pairs of turns, each in the other order than the one before, so that no drift looks like a cost."""
    kinds = {"produce": (_produce_frames(), 1600), "fetch": (_fetch_frames(), 400)}
    found: dict[tuple[str, bool], list[float]] = {
        (kind, many): [] for kind in kinds for many in (False, True)
    }
    state = False
    for pair in range(settings.scaled(4, 2)):
        for many in (False, True) if pair % 2 == 0 else (True, False):
            if many is not state:
                _set(target, many=many)
                state = many
            for kind, (frames, count) in kinds.items():
                asked = [_ask(target, frames, count) for _ in range(settings.scaled(10, 3))]
                found[kind, many].append(statistics.median(asked))
    if state:
        _set(target, many=False)
    figures: dict[str, float] = {}
    for kind in kinds:
        few, lots = found[kind, False], found[kind, True]
        figures[kind] = statistics.median(few)
        figures[f"{kind}, 10,000"] = statistics.median(lots)
        ratios = [after / before for before, after in zip(few, lots, strict=True)]
        figures[f"{kind}: rules add"] = (statistics.median(ratios) - 1) * 100
    return figures


SCENARIOS = (
    Scenario(
        name="acls_small_requests",
        about=f"produce one 100 B record, and fetch of {len(_TOPICS)} partitions, 1 connection, depth {_DEPTH}; "
        "with 3 rules, and with 10,000 more, in pairs",
        figures=tuple(
            figure
            for kind in ("produce", "fetch")
            for figure in (
                Figure(kind, "us/request", more_is_better=False),
                Figure(f"{kind}, 10,000", "us/request", more_is_better=False),
                Figure(f"{kind}: rules add", "%", more_is_better=False),
            )
        ),
        measure=_measure,
        prepare=_prepare,
        settings=_settings,
    ),
)
