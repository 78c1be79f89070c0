"""The members of a classic group: dynamic, static (KIP-345) and pending ones (KIP-394), their leader and their vote.

The numbers that each request needs (members that wait, members that support a protocol) are kept up to date, so that no
request counts the members.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pkafka.coordination.znode_json import string_hash
from pkafka.model import Millis
from pkafka.server.groups.events import Protocols


@dataclass(slots=True, kw_only=True)
class Member:
    """Holds one member. ``join_waiter`` and ``sync_waiter`` are its requests that wait for an answer, or None.

    A member is ``is_new`` until its first generation. It cannot send heartbeats yet, so a long wait ends its
    membership.
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
        """Return the member's metadata for ``protocol``, which it supports."""
        return next(metadata for name, metadata in self.protocols if name == protocol)


class Members:
    """Holds all members of one group, in the order in which they joined.

    Attributes:
        leader: the first member, until it leaves; None without members.
        pending: ids that were given to clients that have not joined with them yet.
        pending_sync: members that have not sent SyncGroup in this generation.
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
        # As keys of dictionaries: an empty set takes three times as much, and there may be many groups without members.
        self.pending: dict[str, None] = {}
        self.pending_sync: dict[str, None] = {}
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
        """Return the member of that id; a pending id has no member."""
        return self._by_id.get(member_id)

    def static_id(self, instance_id: str) -> str | None:
        """The member id that the static member ``instance_id`` has now."""
        return self._static.get(instance_id)

    # -- coming and going --

    def add(self, member: Member) -> None:
        """Add a member; no other member may have its id or its instance id."""
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
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove the member or the pending id, if there is one. When the leader is removed, the next member leads."""
        member = self._by_id.pop(member_id, None)
        if member is not None:
            self._support(member.protocols, -1)
            assert member.join_waiter is None, member  # the caller answers a waiting request first
            if member.instance_id is not None:
                del self._static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._by_id), None)
        self.pending.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def rename_static(self, instance_id: str, new_id: str) -> Member:
        """Give a static member another id; everything else stays, its leadership, too."""
        old_id = self._static[instance_id]
        member = self._by_id.pop(old_id)
        assert new_id not in self._by_id, new_id
        member.member_id = new_id
        if old_id in self.pending_sync:
            # Kafka keeps the old id, waits in vain for its SyncGroup, and rebalances once more.
            del self.pending_sync[old_id]
            self.pending_sync[new_id] = None
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
        """Let a request of ``member`` wait for the next generation; no other request of it may wait."""
        assert member.join_waiter is None, member
        member.join_waiter = waiter
        self.awaiting_join += 1

    def take_join_waiter(self, member: Member) -> object | None:
        """Take the waiting request of the member; None when it has none."""
        waiter = member.join_waiter
        if waiter is not None:
            member.join_waiter = None
            self.awaiting_join -= 1
        return waiter

    @property
    def all_joined(self) -> bool:
        """Whether all members wait for the next generation, and no pending id is left."""
        return self.awaiting_join == len(self._by_id) and not self.pending

    def elect_joined_leader(self) -> bool:
        """Make a member that waits to join the leader, unless the present leader does.

        Returns:
            False when no member waits to join, or the group has no leader.
        """
        leader = self._by_id[self.leader] if self.leader is not None else None
        if leader is not None and leader.join_waiter is None:
            leader = next((member for member in self if member.join_waiter is not None), None)
            if leader is not None:
                self.leader = leader.member_id
        return leader is not None

    # -- what they support --

    @property
    def rebalance_timeout_ms(self) -> Millis:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def all_support_one_of(self, protocols: Protocols) -> bool:
        """Whether all members support one of ``protocols``; a member that changes its protocols counts with the old
        ones."""
        return any(self._supporters[name] == len(self._by_id) for name, _ in protocols)

    def vote(self) -> str:
        """Choose the protocol that most members prefer, among those that all support."""
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
    """Order names that have the same number of votes as Kafka does: in the order of Scala's immutable hash map.

    So the members get the same protocol from a broker of Kafka and from one of pkafka.
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
