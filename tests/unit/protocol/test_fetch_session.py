"""The client's side of a fetch session: which epoch comes next, and what the broker knows."""

from pkafka.protocol.fetch_session import ClientSession
from pkafka.protocol.messages.fetch import FetchRequest


def begun(session: ClientSession[str, int], wanted: dict[str, int]) -> tuple[int, int, dict[str, int]]:
    """Session id and epoch of the next request, and what the broker knows before it."""
    request = FetchRequest()
    known = session.begin(request, wanted)
    return request.session_id, request.session_epoch, dict(known)


def test_epochs_count_the_answers_and_the_broker_knows_what_was_answered() -> None:
    session: ClientSession[str, int] = ClientSession()
    assert begun(session, {"a": 1}) == (0, 0, {})
    session.answered(0, 7)
    assert begun(session, {"a": 2}) == (7, 1, {"a": 1})
    session.answered(0, 7)
    assert begun(session, {}) == (7, 2, {"a": 2})


def test_a_session_that_the_broker_refuses_or_does_not_keep_begins_with_everything() -> None:
    for error_code, session_id in ((70, 7), (0, 0)):
        session: ClientSession[str, int] = ClientSession()
        begun(session, {"a": 1})
        session.answered(0, 7)
        begun(session, {"a": 1})
        session.answered(error_code, session_id)
        assert begun(session, {"a": 1}) == (0, 0, {})
        assert session.closing() is None


def test_a_session_that_begins_anew_keeps_its_id_so_that_the_broker_can_end_it() -> None:
    session: ClientSession[str, int] = ClientSession()
    begun(session, {"a": 1})
    session.answered(0, 7)
    session.begin_anew()
    assert begun(session, {"a": 1}) == (7, 0, {})
    session.answered(0, 8)
    assert begun(session, {"a": 1}) == (8, 1, {"a": 1})


def test_the_epoch_after_the_last_one_is_the_first_of_an_open_session() -> None:
    session: ClientSession[str, int] = ClientSession()
    begun(session, {})
    session.answered(0, 7)
    session._epoch = 2**31 - 1
    session.answered(0, 7)
    assert begun(session, {})[:2] == (7, 1)


def test_closing_ends_an_open_session() -> None:
    session: ClientSession[str, int] = ClientSession()
    assert session.closing() is None
    begun(session, {})
    session.answered(0, 7)
    request = session.closing()
    assert request is not None
    assert (request.session_id, request.session_epoch, request.topics) == (7, -1, [])
