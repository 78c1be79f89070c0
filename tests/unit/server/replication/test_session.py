"""A follower's fetch session says what changed, and everything after anything went wrong."""

from pkafka.errors import ErrorCode
from pkafka.protocol.messages.fetch import FetchRequest
from pkafka.server.replication.session import FollowerSession, Key, Wish

ONE, OTHER = bytes(15) + b"1", bytes(15) + b"2"


def wish(offset: int, *, epoch: int = 3) -> Wish:
    return Wish(epoch, offset, epoch, 0, 1_000)


def said(session: FollowerSession, wishes: dict[Key, Wish]) -> tuple[int, int, dict[Key, int], set[Key]]:
    """Session id and epoch of the next request, the offsets that it names, and what it forgets."""
    request = FetchRequest()
    session.fill(request, wishes)
    named = {
        (topic.topic_id, one.partition): one.fetch_offset
        for topic in request.topics
        for one in topic.partitions
    }
    forgotten = {
        (topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions
    }
    return request.session_id, request.session_epoch, named, forgotten


def test_only_what_changed_is_said_again() -> None:
    session = FollowerSession()
    both = {(ONE, 0): wish(5), (OTHER, 1): wish(7)}
    assert said(session, both) == (0, 0, {(ONE, 0): 5, (OTHER, 1): 7}, set())
    assert not session.answered(0, 99)
    assert said(session, both) == (99, 1, {}, set())
    assert not session.answered(0, 99)
    assert said(session, {(ONE, 0): wish(6), (OTHER, 1): wish(7)}) == (99, 2, {(ONE, 0): 6}, set())
    assert not session.answered(0, 99)
    assert said(session, {(ONE, 0): wish(6)}) == (99, 3, {}, {(OTHER, 1)})


def test_a_new_epoch_is_a_change() -> None:
    session = FollowerSession()
    said(session, {(ONE, 0): wish(5)})
    session.answered(0, 99)
    assert said(session, {(ONE, 0): wish(5, epoch=4)})[2] == {(ONE, 0): 5}


def test_what_was_said_in_a_request_without_an_answer_is_said_again() -> None:
    session = FollowerSession()
    said(session, {(ONE, 0): wish(5)})
    session.answered(0, 99)
    said(session, {(ONE, 0): wish(6)})
    session.reset()  # the connection broke
    assert said(session, {(ONE, 0): wish(6)}) == (0, 0, {(ONE, 0): 6}, set())


def test_when_not_all_of_an_answer_was_taken_the_leader_ends_the_session_and_tells_everything() -> None:
    session = FollowerSession()
    said(session, {(ONE, 0): wish(5)})
    session.answered(0, 99)
    session.begin_anew()
    assert said(session, {(ONE, 0): wish(5)}) == (99, 0, {(ONE, 0): 5}, set())
    assert not session.answered(0, 100)
    assert said(session, {(ONE, 0): wish(5)}) == (100, 1, {}, set())


def test_a_leader_that_knows_no_such_session_is_told_everything() -> None:
    session = FollowerSession()
    said(session, {(ONE, 0): wish(5)})
    session.answered(0, 99)
    said(session, {(ONE, 0): wish(5)})
    assert session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert said(session, {(ONE, 0): wish(5)}) == (0, 0, {(ONE, 0): 5}, set())
    assert not session.answered(ErrorCode.NOT_CONTROLLER, 0)  # about something else


def test_a_leader_without_room_for_a_session_is_told_everything_each_time() -> None:
    session = FollowerSession()
    for _ in range(2):
        assert said(session, {(ONE, 0): wish(5)}) == (0, 0, {(ONE, 0): 5}, set())
        assert not session.answered(0, 0)
