"""A run's one JSON document is whole whenever Ctrl-C comes."""

import json
import os
import select
import signal
import threading
from collections.abc import Iterator

import pytest

from pkafka.cli.kit import output
from pkafka.cli.kit.output import JsonList, OutputFormat, View, begin_run, show, show_error


@pytest.fixture(params=["this thread", "another thread"])
def receiver(request: pytest.FixtureRequest) -> Iterator[int]:
    """The thread that the system hands a signal to: commands with clients have several."""
    if request.param == "this thread":
        yield threading.get_ident()
        return
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    assert other.ident is not None
    yield other.ident
    done.set()
    other.join()


@pytest.fixture
def interrupted_while_writing(receiver: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The next write is done when the signal has come, and nothing after it."""
    write = output.raw
    arrived, arrival = os.pipe2(os.O_NONBLOCK)
    before = signal.set_wakeup_fd(arrival)
    # Commands that other tests ran in this process may have left handlers of theirs.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def raw(data: bytes) -> None:
        monkeypatch.setattr(output, "raw", write)
        write(data)
        signal.pthread_kill(receiver, signal.SIGINT)
        assert select.select([arrived], [], [], 60)[0]

    monkeypatch.setattr(output, "raw", raw)
    yield
    signal.signal(signal.SIGINT, handler)
    signal.set_wakeup_fd(before)
    os.close(arrived)
    os.close(arrival)


@pytest.mark.usefixtures("interrupted_while_writing")
def test_the_first_row_of_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    begin_run()
    rows = JsonList("rows")
    with pytest.raises(KeyboardInterrupt):
        rows.add(["1"])
    show_error("Interrupted", "interrupted", code=None, asked=OutputFormat.JSON)
    document = json.loads(capsys.readouterr().out)
    assert (document["rows"], document["error"]["name"]) == ([1], "Interrupted")


@pytest.mark.usefixtures("interrupted_while_writing")
def test_a_whole_document(capsys: pytest.CaptureFixture[str]) -> None:
    begin_run()
    with pytest.raises(KeyboardInterrupt):
        show(View("rows", [], [{"a": 1}]), OutputFormat.JSON)
    show_error("Interrupted", "interrupted", code=None, asked=OutputFormat.JSON)
    assert json.loads(capsys.readouterr().out) == {"rows": [{"a": 1}]}
