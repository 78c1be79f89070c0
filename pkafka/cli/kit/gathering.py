"""Flags that arrive as one value: a function gathers them, and click gets it in the place of the command's own."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def in_the_place_of(function: F, gathered: Callable[..., object], *options: Callable[[Any], Any]) -> F:
    """Give ``gathered`` what click reads off a function: the name, the help and the flags of ``function``.

    Args:
        function: the command's own, which ``gathered`` calls.
        gathered: takes the values of all flags.
        options: more flags, in the order of the help.
    """
    made: Any = gathered
    made.__doc__ = function.__doc__
    made.__name__ = function.__name__
    made.__click_params__ = getattr(function, "__click_params__", [])
    for option in reversed(options):
        made = option(made)
    return cast("F", made)
