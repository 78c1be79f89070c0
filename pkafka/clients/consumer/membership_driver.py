"""Drives the machine of a group's member over the network: sends what is due, takes the answers in, keeps the session.

What a group is for, a consumer's partitions or a Connect worker's tasks, it does not know: whoever uses it performs the
steps of the machine.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from pkafka.clients.consumer.futures import RequestFuture
from pkafka.clients.consumer.group_channel import GroupChannel
from pkafka.clients.consumer.membership_steps import Request, Response
from pkafka.clients.consumer.network import HeartbeatThread
from pkafka.clients.errors import UnsupportedApiError
from pkafka.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pkafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pkafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pkafka.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from pkafka.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_JOIN_LAPSE_MS: Final = 5_000
_LAST_VERSION_OF_ONE_KEY: Final = 3
_RESPONSES: Final[Mapping[type[Any], type[Any]]] = {
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
}

Answered = Callable[[Request, Response, int], None]
"""Hears of a request, its answer and how long that took, in milliseconds, once the machine has taken it in."""


class MembershipDriver:
    """Sends for a member.

    Args:
        channel: to the group's coordinator; it has the machine.
        request_timeout_ms: how long answers may take, but those to joins.
        log: gets what the machine notes.
        answered: hears of answers.
    """

    def __init__(
        self,
        channel: GroupChannel,
        request_timeout_ms: int,
        log: logging.Logger,
        answered: Answered | None = None,
    ) -> None:
        self._channel = channel
        self._net = channel.net
        self._membership = channel.membership
        self._request_timeout_ms = request_timeout_ms
        self._log = log
        self._answered = answered
        self._thread: HeartbeatThread | None = None
        self._knows_keys = True

    def start(self) -> None:
        """Send heartbeats from now on while the application is away; again: nothing happens."""
        if self._thread is None:
            membership = self._membership
            name = f"kafka-coordinator-heartbeat-thread | {membership.settings.group_id}"
            self._thread = HeartbeatThread(self._net, lambda: membership.is_waiting, name)

    def stop(self) -> None:
        """End the thread of heartbeats."""
        if self._thread is not None:
            self._thread.close()

    def send_due(self, now_ms: int) -> None:
        """Send what is due: lookups of the coordinator, heartbeats; never waits. Either thread may."""
        self._channel.drop_former()
        for request in self._membership.due(now_ms):
            self.send(request, now_ms)

    def send(self, request: Request, now_ms: int) -> None:
        """Send one request; the machine gets the answer."""
        future: RequestFuture[Any]
        if isinstance(request, FindCoordinatorRequest):
            future = self._send_lookup(request)
        else:
            timeout_ms = None
            if isinstance(request, JoinGroupRequest):
                # The coordinator answers when all members have joined, or the time to do so is over.
                timeout_ms = max(self._request_timeout_ms, request.rebalance_timeout_ms + _JOIN_LAPSE_MS)
            future = self._channel.send(request, _RESPONSES[type(request)], timeout_ms=timeout_ms)
        future.add_listener(
            lambda answer: self._on_answer(request, answer, now_ms),
            lambda error: self._membership.unanswered(request, error, self._net.now_ms),
        )

    def leave(self, reason: str, deadline_ms: int | None = None) -> None:
        """Leave the group; a static member only forgets its membership.

        Args:
            deadline_ms: wait so long for the coordinator's answer; not at all when left out.
        """
        request = self._membership.leave(reason)
        if request is None:
            return
        future = self._channel.send(request, LeaveGroupResponse)
        if deadline_ms is None:
            self._net.poll_now()
        else:
            self._net.poll_until(future, deadline_ms)

    def log_notes(self) -> None:
        """Write down what the machine has noted."""
        membership = self._membership
        if not membership.notes and not membership.warnings:
            return
        for level, notes in ((logging.INFO, membership.notes), (logging.WARNING, membership.warnings)):
            for note in notes:
                self._log.log(level, "[group %s] %s", membership.settings.group_id, note)
            notes.clear()

    # -- inside -------------------------------------------------------------------------------------------

    def _send_lookup(self, request: FindCoordinatorRequest) -> RequestFuture[FindCoordinatorResponse]:
        address = self._net.cluster.any_address()
        if self._knows_keys:
            future = self._net.send(address, request, FindCoordinatorResponse)
            future.add_listener(lambda _: None, self._note_old_broker)
            return future
        old = FindCoordinatorRequest(key=request.coordinator_keys[0], key_type=0)
        return self._net.send(address, old, FindCoordinatorResponse, max_version=_LAST_VERSION_OF_ONE_KEY)

    def _note_old_broker(self, error: Exception) -> None:
        if isinstance(error, UnsupportedApiError) and self._knows_keys:
            self._knows_keys = False
            error.retriable = True  # in the older form

    def _on_answer(self, request: Request, answer: Response, sent_ms: int) -> None:
        now_ms = self._net.now_ms
        self._membership.answered(request, answer, now_ms)
        if self._answered is not None:
            self._answered(request, answer, now_ms - sent_ms)
