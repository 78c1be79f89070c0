"""``/admin/loggers``: how much is logged, changed while the worker runs (KIP-495, KIP-976)."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from pkafka.connect.rest.calls import EMPTY, Answer, Call, Handler
from pkafka.connect.rest_errors import bad_request, not_found

_LEVELS: Final = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
_NAMES: Final = {number: name for name, number in _LEVELS.items()}
_ROOT: Final = "root"


class Loggers:
    """Answers requests about loggers, under Kafka's names of levels.

    Args:
        set_in_cluster: sets the level of a logger in all workers of a cluster; None: this worker is alone.
        set_beside: sets the level of a logger in the other processes of this worker.
    """

    def __init__(
        self,
        set_in_cluster: Callable[[str, str], None] | None = None,
        set_beside: Callable[[str, int], None] = lambda _logger, _level: None,
    ) -> None:
        self._set_in_cluster = set_in_cluster
        self._set_beside = set_beside
        self._modified_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def routes(self) -> dict[tuple[str, str], Handler]:
        """By method and path, what answers."""
        return {
            ("GET", "/admin/loggers"): self._list,
            ("GET", "/admin/loggers/{logger}"): self._get,
            ("PUT", "/admin/loggers/{logger}"): self._put,
        }

    def _list(self, _call: Call) -> Answer:
        names = [name for name in _known() if logging.getLogger(name).level != logging.NOTSET]
        return Answer(body={name: self._shown(name) for name in sorted([*names, _ROOT])})

    def _get(self, call: Call) -> Answer:
        name = call.name("logger")
        if name != _ROOT and name not in _known():
            raise not_found(f"Logger {name} not found.")
        return Answer(body=self._shown(name))

    def _put(self, call: Call) -> Answer:
        name = call.name("logger")
        level = call.fields("a level").get("level")
        if level is None:
            raise bad_request("Desired 'level' parameter was not specified in request.")
        number = _LEVELS.get(level.upper()) if isinstance(level, str) else None
        if number is None:
            raise not_found(f"invalid log level '{level}'.")
        if (call.all("scope") or ["worker"])[0].lower() != "cluster":
            return Answer(body=self.set(name, number))
        if self._set_in_cluster is None:
            self.set(name, number)
        else:
            self._set_in_cluster(name, _NAMES[number])
        return Answer(204, EMPTY)

    def set_by_name(self, logger: str, level: str) -> None:
        """Set the level of a logger as another worker has it said; a level that there is not is left."""
        number = _LEVELS.get(level.upper())
        if number is not None:
            self.set(logger, number)

    def set(self, name: str, level: int) -> list[str]:
        """Set the level of a logger and of those below it; the root's is the root's alone, as in Kafka.

        Returns:
            The loggers that have it now.
        """
        with self._lock:
            if name == _ROOT:
                changed = [_ROOT]
            else:
                logging.getLogger(name)
                changed = sorted(each for each in _known() if each == name or each.startswith(f"{name}."))
            now_ms = int(time.time() * 1000)
            for each in changed:
                logger = logging.getLogger(None if each == _ROOT else each)
                if logger.getEffectiveLevel() != level:
                    self._modified_ms[each] = now_ms
                logger.setLevel(level)
        self._set_beside(name, level)
        return changed

    def _shown(self, name: str) -> dict[str, object]:
        level = logging.getLogger(None if name == _ROOT else name).getEffectiveLevel()
        return {"level": _NAMES.get(level, str(level)), "last_modified": self._modified_ms.get(name)}


def _known() -> list[str]:
    found = logging.root.manager.loggerDict
    return [name for name, each in list(found.items()) if isinstance(each, logging.Logger)]
