"""The purgatory and its timer: who completes an operation, when, and how often."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import pytest

from pkafka.server.replicas.delayed import DelayedOperation, Purgatory, Timer
from pkafka.server.replicas.timing_wheel import TimerTask


class Operation(DelayedOperation):
    """Completes when told so; keeps a diary."""

    __slots__ = ("diary", "over", "ready")

    def __init__(self) -> None:
        super().__init__()
        self.ready = False
        self.diary: list[str] = []
        self.over = asyncio.Event()

    def try_complete(self) -> bool:
        return self.ready

    def on_complete(self) -> None:
        self.diary.append("completed")
        self.over.set()

    def on_expiration(self) -> None:
        self.diary.append("expired")


def on_loop(scene: "Callable[[Purgatory], object]") -> None:
    async def run() -> None:
        outcome = scene(Purgatory("Test", Timer(asyncio.get_running_loop())))
        if asyncio.iscoroutine(outcome):
            await outcome

    asyncio.run(run())


class TestPurgatory:
    def test_what_happens_in_one_turn_of_the_loop_is_looked_at_once(self) -> None:
        async def scene(purgatory: Purgatory) -> None:
            class Counting(Operation):
                looks = 0

                def try_complete(self) -> bool:
                    Counting.looks += 1
                    return super().try_complete()

            operation = Counting()
            purgatory.watch(operation, ["a"], timeout_ms=10_000)
            for _ in range(3):
                purgatory.check_soon("a")
            operation.ready = True
            assert (Counting.looks, operation.diary) == (0, [])
            await asyncio.sleep(0)
            assert (Counting.looks, operation.diary) == (1, ["completed"])
            purgatory.check_soon("a")  # nobody waits any more
            await asyncio.sleep(0)
            assert Counting.looks == 1

        on_loop(scene)

    def test_an_event_on_any_of_its_keys_completes_it_once(self) -> None:
        def scene(purgatory: Purgatory) -> None:
            operation = Operation()
            purgatory.watch(operation, ["a", "b"], timeout_ms=10_000)
            purgatory.check("a")
            assert operation.diary == []
            operation.ready = True
            purgatory.check("c")
            assert operation.diary == []
            purgatory.check("b")
            purgatory.check("a")
            assert operation.diary == ["completed"]
            assert purgatory.size == 0

        on_loop(scene)

    def test_time_completes_it_when_nothing_else_does(self) -> None:
        async def scene(purgatory: Purgatory) -> None:
            operation = Operation()
            loop = asyncio.get_running_loop()
            began = loop.time()
            purgatory.watch(operation, ["a"], timeout_ms=5)
            await asyncio.wait_for(operation.over.wait(), 60)
            assert operation.diary == ["expired", "completed"]
            assert loop.time() - began >= 0.005
            operation.ready = True
            purgatory.check("a")
            assert operation.diary == ["expired", "completed"]

        on_loop(scene)

    def test_an_abandoned_operation_never_answers(self) -> None:
        def scene(purgatory: Purgatory) -> None:
            operation = Operation()
            purgatory.watch(operation, ["a"], timeout_ms=10_000)
            operation.abandon()
            operation.ready = True
            purgatory.check("a")
            assert operation.diary == []
            assert purgatory.size == 0
            assert not operation.force_complete()

        on_loop(scene)

    def test_completing_one_operation_may_complete_another(self) -> None:
        def scene(purgatory: Purgatory) -> None:
            first, second = Operation(), Operation()

            class Chained(Operation):
                __slots__ = ()

                def on_complete(self) -> None:
                    super().on_complete()
                    second.ready = True
                    purgatory.check("a")

            first = Chained()
            for operation in (first, second):
                purgatory.watch(operation, ["a"], timeout_ms=10_000)
            first.ready = True
            purgatory.check("a")
            assert first.diary == second.diary == ["completed"]

        on_loop(scene)

    @pytest.mark.parametrize("broken_step", ["try_complete", "on_complete", "on_expiration"])
    def test_one_that_breaks_hurts_nobody_else(self, broken_step: str) -> None:
        async def run() -> None:
            purgatory = Purgatory("test", Timer(asyncio.get_running_loop()))

            class Broken(Operation):
                __slots__ = ()

                def on_failure(self, error: Exception) -> None:
                    self.diary.append(str(error))

            def fail(_self: Operation) -> bool:
                raise RuntimeError("a bug")

            setattr(Broken, broken_step, fail)
            broken, sound = Broken(), Operation()
            timeout_ms = 1 if broken_step == "on_expiration" else 10_000
            for operation in (broken, sound):
                purgatory.watch(operation, ["a"], timeout_ms=timeout_ms)
            if broken_step == "on_expiration":
                await asyncio.wait_for(sound.over.wait(), 60)
            else:
                broken.ready = sound.ready = True
                purgatory.check("a")
            assert broken.diary == ["a bug"]
            assert sound.diary[-1] == "completed"
            assert purgatory.size == 0

        asyncio.run(run())


def test_a_timer_goes_on_after_a_task_that_breaks() -> None:
    async def run() -> None:
        timer = Timer(asyncio.get_running_loop())
        done = [asyncio.Event(), asyncio.Event()]

        def fail() -> None:
            raise RuntimeError("a bug")

        timer.after(1, fail)
        timer.after(1, done[0].set)
        timer.after(30, done[1].set)
        for event in done:
            await asyncio.wait_for(event.wait(), 60)

    asyncio.run(run())


def test_the_timer_runs_at_once_what_is_due_at_once() -> None:
    async def run() -> None:
        timer = Timer(asyncio.get_running_loop())
        done = asyncio.Event()
        timer.after(0, done.set)
        await asyncio.wait_for(done.wait(), 60)

    asyncio.run(run())


def test_an_earlier_task_is_not_kept_waiting_by_a_later_one() -> None:
    async def run() -> None:
        timer = Timer(asyncio.get_running_loop())
        order: list[str] = []
        done = asyncio.Event()
        timer.after(40, done.set)
        timer.after(5, lambda: order.append("early"))
        cancelled = timer.after(1, lambda: order.append("never"))
        cancelled.cancel()
        await asyncio.wait_for(done.wait(), 60)
        assert order == ["early"]

    asyncio.run(run())


def test_operations_must_say_when_they_complete() -> None:
    with pytest.raises(NotImplementedError):
        DelayedOperation().try_complete()


def test_what_is_due_at_once_lets_others_in_between() -> None:
    """As after a stop of the whole machine: 10 ms a task, and clients and the sign of life do not wait for all."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        timer = Timer(loop)
        diary: list[str] = []
        done = asyncio.Event()

        def work(number: int) -> None:
            time.sleep(0.01)
            diary.append(str(number))

        for number in range(10):
            timer.after(1, partial(work, number))
        timer.after(1, done.set)
        loop.call_later(0.004, lambda: diary.append("somebody else"))
        time.sleep(0.01)  # noqa: ASYNC251 - the whole process stands still
        await asyncio.wait_for(done.wait(), 60)
        assert [one for one in diary if one.isdigit()] == [str(number) for number in range(10)]
        assert diary.index("somebody else") < 5

    asyncio.run(run())


def test_what_is_due_and_cancelled_by_what_is_due_before_it_does_not_run() -> None:
    async def run() -> None:
        timer = Timer(asyncio.get_running_loop())
        done = asyncio.Event()
        diary: list[str] = []
        tasks: list[TimerTask] = []
        timer.after(1, lambda: tasks[0].cancel())
        tasks.append(timer.after(1, lambda: diary.append("cancelled")))
        timer.after(1, done.set)
        await asyncio.wait_for(done.wait(), 60)
        assert diary == []

    asyncio.run(run())
