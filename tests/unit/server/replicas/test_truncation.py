"""Two replicas take turns as leader while parts of their logs never reach the other: in the end they are the same.

Histories are drawn; every fetch is what leader and follower do, on real logs.
"""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ApiError
from pkafka.server.replicas.truncation import divergence, truncation_offset
from pkafka.storage.log import Log
from tests.unit.storage.makers import END, World, append, everything

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("fetch"), st.integers(1, 4)),
        st.tuples(st.just("lead"), st.integers(0, 1)),
    ),
    max_size=40,
)


class Pair:
    """Replicas 0 and 1 of one partition."""

    def __init__(self, root: Path) -> None:
        self.logs = []
        for number in range(2):
            (root / str(number)).mkdir()
            self.logs.append(World(root / str(number)).create())
        self.epoch = 0
        self.leader = 0
        self.written = 0
        self.logs[0].begin_epoch(0)

    def close(self) -> None:
        for log in self.logs:
            log.close()

    def lead(self, number: int) -> None:
        self.epoch += 1
        self.leader = number
        self.logs[number].begin_epoch(self.epoch)

    def append(self, count: int) -> None:
        for _ in range(count):
            self.written += 1
            append(self.logs[self.leader], b"%d" % self.written, leader_epoch=self.epoch)

    def fetch(self) -> bool:
        """One fetch of the follower; whether anything came of it."""
        leader, follower = self.logs[self.leader], self.logs[1 - self.leader]
        try:
            parted = divergence(leader, follower.log_end_offset, follower.leader_epochs.latest)
        except ApiError:
            # Nothing is known of the follower's epoch: it goes by where the leader's log ends.
            return follower.truncate_to(min(leader.log_end_offset, follower.log_end_offset))
        if parted is not None:
            before = (follower.log_end_offset, follower.leader_epochs.entries)
            follower.truncate_to(truncation_offset(follower, *parted))
            return before != (follower.log_end_offset, follower.leader_epochs.entries)
        found = leader.read(follower.log_end_offset, bytes_max=150, min_one_batch=True, upper_bound=END)
        if not found.length:
            return False
        data = found.segment.read_bytes(found.position, found.length)
        return follower.append_as_follower(data).base_offset >= 0


def content(log: Log) -> bytes:
    return b"".join(segment.read_bytes(0, segment.size) for segment in log.segments)


@given(EVENTS)
def test_logs_become_the_same_whoever_led_when(events: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        pair = Pair(Path(directory))
        for kind, number in events:
            if kind == "append":
                pair.append(number)
            elif kind == "lead":
                pair.lead(number)
            else:
                for _ in range(number):
                    pair.fetch()
        led = everything(pair.logs[pair.leader])
        for _ in range(500):
            if not pair.fetch():
                break
        else:
            raise AssertionError("the follower never comes to an end")
        assert everything(pair.logs[pair.leader]) == led  # nobody cuts the leader
        assert content(pair.logs[0]) == content(pair.logs[1])
        pair.close()


def test_two_quick_changes_of_the_leader_are_compared_epoch_by_epoch(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.append(2)
    while pair.fetch():
        pass
    pair.lead(1)
    pair.append(2)  # lost: 0 leads before it fetches
    pair.lead(0)
    pair.append(1)
    assert divergence(pair.logs[0], 4, 1) == (0, 2)
    while pair.fetch():
        pass
    assert [value for _, value in everything(pair.logs[1])] == [b"1", b"2", b"5"]
    pair.close()
