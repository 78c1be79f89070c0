"""The client's side of an incremental fetch session (KIP-227): after the first fetch only what changed travels.

A consumer and a follower keep one session per broker. This is what both do: which session and epoch a request has, and
what the broker knows already. What is asked of a partition is theirs.
"""

from collections.abc import Mapping
from typing import Final, Generic, TypeVar

from pkafka.protocol.messages.fetch import FetchRequest

_NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
_FINAL_EPOCH: Final = -1

K = TypeVar("K")
V = TypeVar("V")


class ClientSession(Generic[K, V]):
    """A session with one broker, as its client knows it; one request is under way at a time.

    A key is a partition, as the client names it; a value is what the client asks of it.
    """

    __slots__ = ("_epoch", "_id", "_telling", "_told")

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._told: Mapping[K, V] = {}
        self._telling: Mapping[K, V] = {}

    def begin(self, request: FetchRequest, wanted: Mapping[K, V]) -> Mapping[K, V]:
        """Make a request one of the session.

        Args:
            wanted: all that is to be fetched.

        Returns:
            What the broker knows before it has the request, which need only say how ``wanted`` differs.
        """
        request.session_id, request.session_epoch = self._id, self._epoch
        self._telling = dict(wanted)
        return self._told

    def answered(self, error_code: int, session_id: int) -> None:
        """Take note of an answer: the broker may have opened, continued, refused or ended the session."""
        if error_code or session_id == _NO_SESSION:
            self.reset()
            return
        is_new = session_id != self._id or self._epoch == _EPOCH_MAX
        self._epoch = 1 if is_new else self._epoch + 1
        self._id = session_id
        self._told = self._telling

    def closing(self) -> FetchRequest | None:
        """The request that ends the session; None where there is none."""
        if self._id == _NO_SESSION:
            return None
        return FetchRequest(session_id=self._id, session_epoch=_FINAL_EPOCH, topics=[])

    def begin_anew(self) -> None:
        """Say everything in the next request, and have everything told.

        Not all of an answer was taken, which the broker cannot know. It ends the session that was, and begins another.
        """
        self._epoch = _FIRST_EPOCH
        self._told = {}

    def reset(self) -> None:
        """Say everything in the next request: the connection was lost, or the broker knows no such session."""
        self._id = _NO_SESSION
        self.begin_anew()
