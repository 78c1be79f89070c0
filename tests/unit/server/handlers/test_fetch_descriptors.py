"""Keeping a segment open for an answer when no descriptor is left."""

import errno
import os
from typing import NoReturn

import pytest

from pkafka.net.answers import FileRange
from pkafka.server.handlers.fetch import _hold
from pkafka.server.replicas.reading import Found


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_a_descriptor_there_is_nothing_to_read_for_now(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dup(_fd: int) -> NoReturn:
        raise OSError(number, "no room")

    monkeypatch.setattr(os, "dup", dup)
    held: list[int] = []
    found = _hold(Found(0, high_watermark=5, records=FileRange(3, 0, 100)), held)
    assert (found.error, found.high_watermark, found.length, held) == (0, 5, 0, [])
