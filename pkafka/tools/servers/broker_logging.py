"""Where the lines of a broker's log go: as Kafka's log4j.properties has it, without a file that says so.

``server.log`` has what no other file has. Four of Kafka's logs are files of their own: ``state-change.log`` (which
broker leads what, and why), ``controller.log`` (the controller's work), ``log-cleaner.log`` (compaction) and
``kafka-request.log`` (each request, when the operator asks for it). A broker in the foreground writes all of them to
standard error, and leaves changes of single partitions out until the operator asks for them.
"""

import logging
import sys
from pathlib import Path
from typing import Final

from pkafka.server.cluster.state_change import STATE_CHANGE_LOGGER
from pkafka.server.compaction.log_cleaner import LOG_CLEANER_LOGGER
from pkafka.server.serving.request_log import REQUEST_LOGGER
from pkafka.tools.servers.rotating_log import OneLineFormatter, SharedRotatingHandler

CONTROLLER_LOGGER: Final = "kafka.controller"
SERVER_FILE: Final = "server.log"
FILES: Final = {
    STATE_CHANGE_LOGGER: "state-change.log",
    CONTROLLER_LOGGER: "controller.log",
    LOG_CLEANER_LOGGER: "log-cleaner.log",
    REQUEST_LOGGER: "kafka-request.log",
}
"""The logs with a file of their own, by the name of their logger."""
_FORMAT: Final = "[%(asctime)s] %(levelname)s [%(process)d] %(message)s (%(name)s)"


def log_to_files(directory: Path) -> None:
    """Log into files of a directory, each put aside when it is full.

    Raises:
        OSError: a file cannot be opened.
    """
    _begin(_formatted(SharedRotatingHandler(directory / SERVER_FILE)))
    for name, file in FILES.items():
        logger = logging.getLogger(name)
        logger.addHandler(_formatted(SharedRotatingHandler(directory / file)))
        logger.propagate = False


def log_to_standard_error() -> None:
    """Log everything to standard error, for a person who watches."""
    _begin(_formatted(logging.StreamHandler(sys.stderr)))
    logging.getLogger(STATE_CHANGE_LOGGER).setLevel(logging.WARNING)


def _formatted(handler: logging.Handler) -> logging.Handler:
    handler.setFormatter(OneLineFormatter(_FORMAT))
    return handler


def _begin(handler: logging.Handler) -> None:
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    # It tells of every attempt; the control process of changes.
    logging.getLogger("kazoo").setLevel(logging.ERROR)
