"""What runs until it is told to end hears of each signal."""

import signal
import threading
from collections.abc import Iterator

import pytest

from pkafka.cli.kit.long_running import asked_to_end, wait_for


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of the tests, afterwards."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_another_thread_gets_is_one_to_end(number: signal.Signals) -> None:
    asked = asked_to_end()
    is_waiting, may_end = threading.Event(), threading.Event()

    def get() -> None:
        is_waiting.wait()
        signal.pthread_kill(threading.get_ident(), number)
        may_end.wait()

    thread = threading.Thread(target=get, daemon=True)
    thread.start()
    # Long enough, nearly always, for this thread to wait.
    threading.Timer(0.1, is_waiting.set).start()
    wait_for(asked)
    may_end.set()
    thread.join()
    assert asked.is_set()
