"""Loggers have the names of their modules; operators may still set the names that they had before."""

import importlib
import logging
from collections.abc import Iterator

import pytest

from pkafka.server.config.broker_loggers import FORMER_NAMES, ProcessLoggers


@pytest.fixture
def loggers() -> Iterator[ProcessLoggers]:
    """Those of this process; what they are set to is undone."""
    found = [logging.getLogger(name) for names in FORMER_NAMES.values() for name in names]
    levels = [each.level for each in found]
    yield ProcessLoggers()
    for each, level in zip(found, levels, strict=True):
        each.setLevel(level)


@pytest.mark.parametrize("former", sorted(FORMER_NAMES))
def test_a_former_name_sets_the_loggers_of_today(loggers: ProcessLoggers, former: str) -> None:
    loggers.set_level(former, "ERROR")
    for name in FORMER_NAMES[former]:
        assert logging.getLogger(name).level == logging.ERROR
    assert loggers.levels()[former] == "ERROR"
    loggers.set_level(former, None)
    assert {logging.getLogger(name).level for name in FORMER_NAMES[former]} == {logging.NOTSET}


@pytest.mark.parametrize("former", sorted(FORMER_NAMES))
def test_the_last_of_them_is_the_logger_of_a_module(former: str) -> None:
    name = FORMER_NAMES[former][-1]
    module = importlib.import_module(name)
    assert logging.getLogger(name) in vars(module).values()
