"""Java's MirrorMaker 2 as an oracle: questions in JSON, a line each; see ``java/MirrorOracle.java``."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.interop import kafka
from tests.interop.line_oracle import LineOracle, line_oracle


class MirrorOracle:
    """Asks.

    Args:
        oracle: the process.
    """

    def __init__(self, oracle: LineOracle) -> None:
        self._oracle = oracle

    def ask(self, op: str, name: str = "", **case: Any) -> Any:
        """What Java makes of a case.

        Args:
            name: of the class that it is about.
        """
        return json.loads(self._oracle.ask(json.dumps({"op": op, "class": name, **case})))


@contextmanager
def mirror_oracle(class_path: str) -> Iterator[MirrorOracle]:
    """A running oracle."""
    with line_oracle(os.pathsep.join([class_path, kafka.jars("connect")]), "MirrorOracle") as started:
        yield MirrorOracle(started)
