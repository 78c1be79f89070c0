"""``--metrics-config``: how commands read a page of metrics that is guarded."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pkafka.tools.cluster.page_reader import PageReader

F = TypeVar("F", bound=Callable[..., Any])


def metrics_config_option(function: F) -> F:
    """Add the flag."""
    return click.option(
        "--metrics-config",
        metavar="FILE",
        help="Properties file for guarded pages: ssl.truststore.*, ssl.keystore.*, basic.auth.user.info=NAME:PASSWORD.",
    )(function)


def page_reader(file: str | None) -> "PageReader":
    """What the file of the flag says of a guarded page; without one the page asks for no login.

    Raises:
        ConfigError: the file cannot be used.
    """
    from pkafka.tools.cluster.page_reader import UNGUARDED, PageReader

    return UNGUARDED if file is None else PageReader.of_file(file)
