"""A run's one JSON document is whole whenever Ctrl-C comes."""

import json
import os
import signal

import pytest

from pkafka.cli import output
from pkafka.cli.output import JsonList, OutputFormat, View, begin_run, show, show_error


def interrupted_while_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next write is done when the signal comes, and nothing after it."""
    write = output.raw

    def raw(data: bytes) -> None:
        monkeypatch.setattr(output, "raw", write)
        write(data)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(output, "raw", raw)


def test_the_first_row_of_a_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    begin_run()
    rows = JsonList("rows")
    interrupted_while_writing(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        rows.add(["1"])
    show_error("Interrupted", "interrupted", code=None, asked=OutputFormat.JSON)
    document = json.loads(capsys.readouterr().out)
    assert (document["rows"], document["error"]["name"]) == ([1], "Interrupted")


def test_a_whole_document(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    begin_run()
    interrupted_while_writing(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        show(View("rows", [], [{"a": 1}]), OutputFormat.JSON)
    show_error("Interrupted", "interrupted", code=None, asked=OutputFormat.JSON)
    assert json.loads(capsys.readouterr().out) == {"rows": [{"a": 1}]}
