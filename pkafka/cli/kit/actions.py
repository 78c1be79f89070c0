"""Actions of a command: flags as --list and --delete, of which one is given, where other programs have verbs.

``pk-topics --create --help`` shows what goes with ``--create`` alone, with an example; so does the man page.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple


class Actions(NamedTuple):
    """The actions of a command, and the flags that go with each. Flags are named without their dashes.

    Args:
        examples: an example of each action, without the command's name and its brokers.
        belongs: the actions that a flag goes with; one that is not here goes with all.
    """

    examples: Mapping[str, str]
    belongs: Mapping[str, Collection[str]]

    def asked(self, args: Sequence[str]) -> str | None:
        """The action of a command line; None where it has none, or several."""
        found = [name for name in self.examples if f"--{name}" in args]
        return found[0] if len(found) == 1 else None

    def has(self, action: str, flag: str) -> bool:
        """Whether a flag, which is no action itself, goes with an action."""
        return flag not in self.examples and action in self.belongs.get(flag, (action,))

    def example(self, command: str, action: str) -> str:
        """A whole command line of an action."""
        return f"{command} --bootstrap-server localhost:9092 {self.examples[action]}"
