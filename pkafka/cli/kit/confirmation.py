"""A question before something is destroyed that the command line does not name.

A command asks only at a terminal: Kafka's tools ask nothing, and scripts rely on that.
"""

import sys

import click

from pkafka.cli.kit.exit_status import compat_39


def can_ask() -> bool:
    """Whether the command runs at a terminal, where a person can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not compat_39()


def agrees(question: str) -> bool:
    """Whether the answer is yes; the end of the input and Ctrl-C mean no."""
    try:
        answer = click.prompt(f"{question} (y/n)", default="n", err=True)
    except click.Abort:
        return False
    return str(answer).strip().lower() in ("y", "yes")
