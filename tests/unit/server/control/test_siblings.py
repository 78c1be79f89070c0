"""What the control process tells its workers, and how it knows that they act by it."""

import asyncio
from typing import Any, cast

from pkafka.server.control.siblings import Siblings
from pkafka.server.ipc import words
from pkafka.server.ipc.peer import PeerGone


class Worker:
    """The channel to a worker, which answers when the test lets it."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def note(self, operation: str, _payload: object) -> None:
        self.said.append(operation)

    def call(self, operation: str, _payload: object) -> asyncio.Future[Any]:
        self.said.append(operation)
        return self.answer


def test_who_waits_until_workers_have_heard_waits_for_each_that_answers() -> None:
    async def play() -> None:
        siblings, slow, gone = Siblings(), Worker(), Worker()
        for worker in (slow, gone):
            siblings.follow(cast("Any", worker))
        gone.answer.set_exception(PeerGone("worker 1"))
        siblings.tell_workers(words.TOPIC_CONFIGS, {"t": {}})
        waiting = asyncio.ensure_future(siblings.heard())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        # In this order by one channel, so that the answer comes when the settings are in force.
        assert slow.said == gone.said == [words.TOPIC_CONFIGS, words.HEARD]
        slow.answer.set_result(None)
        await waiting

    asyncio.run(play())


def test_nobody_is_waited_for_where_there_is_no_worker() -> None:
    asyncio.run(Siblings().heard())
