"""What the REST API shows of an exception: class and message first, as in Java's traces, then where it was raised."""

import traceback
from typing import Final, TypeVar

from pkafka.errors import PkafkaError

ErrorT = TypeVar("ErrorT", bound=BaseException)

_FOREIGN: Final = "foreign_trace"
"""The attribute of an error that another process has raised."""


def class_name(error: BaseException) -> str:
    """The name under which an error is known: that of Java's class where there is one."""
    java = getattr(error, "JAVA_NAME", None)
    kind = type(error)
    return (
        str(java)
        if java
        else kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def one_line(error: BaseException) -> str:
    """Class and message."""
    text = str(error)
    return f"{class_name(error)}: {text}" if text else class_name(error)


def trace_of(error: BaseException) -> str:
    """The whole trace, its causes last."""
    foreign = getattr(error, _FOREIGN, None)
    if foreign is not None:
        return str(foreign)
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        parts.append(("Caused by: " if parts else "") + one_line(current) + "\n")
        parts += [
            f"\tat {frame.name} ({frame.filename}:{frame.lineno})\n"
            for frame in reversed(traceback.extract_tb(current.__traceback__))
        ]
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "".join(parts)


def foreign_trace(error: ErrorT, trace: str) -> ErrorT:
    """Have an error keep the trace that it has in the process where it was raised."""
    setattr(error, _FOREIGN, trace)
    return error


def root_text(error: BaseException) -> str:
    """What an operator needs to hear of an error in one sentence."""
    return str(error) if isinstance(error, PkafkaError) and str(error) else one_line(error)
