"""The members of a classic group: dynamic, static (KIP-345) and pending ones (KIP-394), their leader and their vote.

Counts that a request asks for (how many wait, how many support a protocol) are kept, not counted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pkafka.coordination.znode_json import string_hash
from pkafka.model import Millis
from pkafka.server.groups.events import Protocols


@dataclass(slots=True, kw_only=True)
class Member:
    """One member. ``join_waiter`` and ``sync_waiter`` are who waits for its answer, None: nobody.

    ``is_new`` until its first generation: it cannot send heartbeats yet, so a long wait ends its membership.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: Millis
    rebalance_timeout_ms: Millis
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    join_waiter: object | None = None
    sync_waiter: object | None = None

    def metadata(self, protocol: str) -> bytes:
        """What it says under the name of ``protocol``, which it supports."""
        return next(metadata for name, metadata in self.protocols if name == protocol)


class Members:
    """All members of one group, in the order in which they came.

    Attributes:
        leader: the first member, until it goes; None without members.
        pending: ids that were given out and have not joined yet.
        pending_sync: ids that have not sent SyncGroup in this generation.
    """

    __slots__ = (
        "_by_id",
        "_static",
        "_supporters",
        "awaiting_join",
        "leader",
        "pending",
        "pending_sync",
    )

    def __init__(self) -> None:
        self.leader: str | None = None
        self.pending: set[str] = set()
        self.pending_sync: set[str] = set()
        self.awaiting_join = 0
        self._by_id: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def get(self, member_id: str) -> Member | None:
        """The member of that id, pending ones are none."""
        return self._by_id.get(member_id)

    def static_id(self, instance_id: str) -> str | None:
        """The member id that the static member ``instance_id`` has now."""
        return self._static.get(instance_id)

    # -- coming and going --

    def add(self, member: Member) -> None:
        """Take in a member whose id, and whose instance id, nobody has."""
        assert member.member_id not in self._by_id, member
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            assert member.instance_id not in self._static, member
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        if member.join_waiter is not None:
            self.awaiting_join += 1
        self._support(member.protocols, 1)
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Take out a member or a pending one, if there is one of that id; the next one becomes leader."""
        member = self._by_id.pop(member_id, None)
        if member is not None:
            self._support(member.protocols, -1)
            assert member.join_waiter is None, member  # who waits is answered first
            if member.instance_id is not None:
                del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._by_id), None)
        self.pending.discard(member_id)
        self.pending_sync.discard(member_id)

    def rename_static(self, instance_id: str, new_id: str) -> Member:
        """Give a static member another id; the rest of it stays, leadership too."""
        old_id = self._static[instance_id]
        member = self._by_id.pop(old_id)
        assert new_id not in self._by_id, new_id
        member.member_id = new_id
        if old_id in self.pending_sync:
            # Kafka keeps the old id, for which nobody will ever sync, and so rebalances once more in the end.
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        self._by_id[new_id] = member
        self._static[instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        """Let ``member`` support ``protocols`` and nothing else."""
        self._support(member.protocols, -1)
        member.protocols = protocols
        self._support(protocols, 1)

    # -- waiting to join --

    def park_join(self, member: Member, waiter: object) -> None:
        """Let ``waiter`` wait for the next generation of ``member``, for which nobody waits yet."""
        assert member.join_waiter is None, member
        member.join_waiter = waiter
        self.awaiting_join += 1

    def take_join_waiter(self, member: Member) -> object | None:
        """Who waits; nobody does afterwards."""
        waiter = member.join_waiter
        if waiter is not None:
            member.join_waiter = None
            self.awaiting_join -= 1
        return waiter

    @property
    def all_joined(self) -> bool:
        """Whether everybody who may come to the next generation waits for it."""
        return self.awaiting_join == len(self._by_id) and not self.pending

    def elect_joined_leader(self) -> bool:
        """See to it that the leader is one who waits to join; whether there is such a member."""
        leader = self._by_id[self.leader] if self.leader is not None else None
        if leader is not None and leader.join_waiter is None:
            leader = next((member for member in self if member.join_waiter is not None), None)
            if leader is not None:
                self.leader = leader.member_id
        return leader is not None

    # -- what they support --

    @property
    def rebalance_timeout_ms(self) -> Millis:
        """The longest that any member asks for."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def all_support_one_of(self, protocols: Protocols) -> bool:
        """Whether some protocol of ``protocols`` is supported by everybody (a member that changes counts as it was)."""
        return any(self._supporters[name] == len(self._by_id) for name, _ in protocols)

    def vote(self) -> str:
        """The protocol that most members prefer among those that all support."""
        votes = Counter(
            next(name for name, _ in member.protocols if self._supporters[name] == len(self._by_id))
            for member in self
        )
        most = max(votes.values())
        return next(iter(_in_trie_order([name for name, count in votes.items() if count == most])))

    def _support(self, protocols: Protocols, change: int) -> None:
        for name in {name for name, _ in protocols}:
            self._supporters[name] += change
            if not self._supporters[name]:
                del self._supporters[name]


def _in_trie_order(names: Iterable[str]) -> list[str]:
    """The order in which Kafka looks at as many votes for each of ``names``: that of Scala's immutable hash map.

    Only so do members hear the same choice from a broker of either kind.
    """
    return [name for _, name in _walk([(_improved_hash(name), name) for name in names])]


def _walk(entries: list[tuple[int, str]], shift: int = 0) -> Iterator[tuple[int, str]]:
    slots: dict[int, list[tuple[int, str]]] = {}
    for entry in entries:
        slots.setdefault(entry[0] >> shift & 31, []).append(entry)
    shared = []
    for slot in sorted(slots):
        if len(slots[slot]) == 1:
            yield slots[slot][0]
        else:
            shared.append(slots[slot])
    for group in shared:
        yield from _walk(group, shift + 5) if shift < 30 else group


def _improved_hash(text: str) -> int:
    value = string_hash(text)
    value = value + ~(value << 9) & 0xFFFFFFFF
    value ^= value >> 14
    value = value + (value << 4) & 0xFFFFFFFF
    return value ^ value >> 10
