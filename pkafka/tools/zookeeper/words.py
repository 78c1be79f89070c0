"""How verbs of ZooKeeper's shell are written: words, flags, paths, ACLs; and how it writes what is known of a node."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pkafka.coordination.administration import Acl, Nodes, Permission
from pkafka.coordination.store import ANY_VERSION, Stat
from pkafka.errors import PkafkaError
from pkafka.java.numbers import parse_int

_LETTERS: Final = {
    "c": Permission.CREATE,
    "d": Permission.DELETE,
    "r": Permission.READ,
    "w": Permission.WRITE,
    "a": Permission.ADMIN,
}
# A word: without quotes up to the next space, or anything between quotes.
_WORD: Final = re.compile(r"""\s*([^"']\S*|"[^"]*"|'[^']*')\s*""")


class VerbUsageError(PkafkaError):
    """A verb is not used like that; the text is its usage, or what is wrong with an argument."""


class Answer(NamedTuple):
    """What a verb has to say.

    Args:
        lines: ZooKeeper's text.
        remarks: what ZooKeeper writes to standard error.
        name, rows: the same as data, where it is worth it.
    """

    lines: Sequence[str] = ()
    remarks: Sequence[str] = ()
    name: str = ""
    rows: Sequence[Mapping[str, object]] = ()


class Words(NamedTuple):
    """The arguments of a verb: flags, a switch has an empty text, and what else there is."""

    flags: Mapping[str, str]
    rest: Sequence[str]

    def version(self) -> int:
        """The number of -v; -1, which is any, without it."""
        return self.integer("v", ANY_VERSION)

    def integer(self, flag: str, otherwise: int) -> int:
        """The number of a flag."""
        text = self.flags.get(flag)
        if text is None:
            return otherwise
        try:
            return parse_int(text)
        except ValueError:
            raise VerbUsageError(f"-{flag} needs a number, not {text!r}") from None

    def path(self, position: int = 0) -> str:
        """An argument that is a path."""
        return checked_path(self.rest[position])


class Verb(NamedTuple):
    """One verb.

    Args:
        usage: what help says after its name.
        run: does it.
        switches, valued: letters of flags without and with a value.
        least: how many arguments it needs beside them.
    """

    usage: str
    run: Callable[[Nodes, Words], Answer]
    switches: str = ""
    valued: str = ""
    least: int = 1


def split_line(line: str) -> list[str]:
    """Words of a line; quotes keep spaces together."""
    words = [match[1] for match in _WORD.finditer(line)]
    return [
        word[1:-1] if word[:1] in "'\"" and len(word) > 1 and word[0] == word[-1] else word for word in words
    ]


def read_words(verb: Verb, words: Sequence[str]) -> Words:
    """Tell flags from arguments; letters may stand together, and flags anywhere.

    Raises:
        VerbUsageError: a flag is unknown or has no value, or arguments are missing.
    """
    flags: dict[str, str] = {}
    rest: list[str] = []
    left = iter(words)
    for word in left:
        if len(word) < 2 or word[0] != "-" or word[1:].isdecimal():
            rest.append(word)
            continue
        letters = word.lstrip("-")
        for place, letter in enumerate(letters):
            if letter in verb.valued:
                value = letters[place + 1 :] or next(left, None)
                if value is None:
                    raise VerbUsageError(f"Missing argument for option: {letter}")
                flags[letter] = value
                break
            if letter not in verb.switches:
                raise VerbUsageError(f"Unrecognized option: {word}")
            flags[letter] = ""
    if len(rest) < verb.least:
        raise VerbUsageError(verb.usage)
    return Words(flags, rest)


def checked_path(path: str) -> str:
    """A path that ZooKeeper takes.

    Raises:
        VerbUsageError: in its words.
    """
    if not path:
        raise VerbUsageError("Path length must be > 0")
    if not path.startswith("/"):
        raise VerbUsageError("Path must start with / character")
    if path == "/":
        return path
    if path.endswith("/"):
        raise VerbUsageError("Path must not end with / character")
    parts = path[1:].split("/")
    if "" in parts:
        raise VerbUsageError(f'Invalid path string "{path}" caused by empty node name specified')
    if "." in parts or ".." in parts:
        raise VerbUsageError(f'Invalid path string "{path}" caused by relative paths not allowed')
    return path


def perms_text(perms: Permission) -> str:
    """Letters of permissions, in ZooKeeper's order."""
    return "".join(letter for letter, bit in _LETTERS.items() if perms & bit)


def parse_acls(text: str) -> list[Acl]:
    """``scheme:id:perms,scheme:id:perms``; an id may have colons.

    Raises:
        VerbUsageError: one of them has not that form, or knows another letter than cdrwa.
    """
    acls = []
    for item in text.split(","):
        scheme, _, rest = item.partition(":")
        identity, colon, letters = rest.rpartition(":")
        if not colon:
            raise VerbUsageError(f"{item} does not have the form scheme:id:perm")
        perms = Permission(0)
        for letter in letters:
            if letter not in _LETTERS:
                raise VerbUsageError(f"Unknown perm type: {letter}")
            perms |= _LETTERS[letter]
        acls.append(Acl(perms, scheme, identity))
    return acls


def stat_lines(stat: Stat) -> list[str]:
    """A stat as the shell shows it, with times of this machine's zone."""
    return [
        f"cZxid = {_hexadecimal(stat.czxid)}",
        f"ctime = {_date(stat.ctime_ms)}",
        f"mZxid = {_hexadecimal(stat.mzxid)}",
        f"mtime = {_date(stat.mtime_ms)}",
        f"pZxid = {_hexadecimal(stat.pzxid)}",
        f"cversion = {stat.cversion}",
        f"dataVersion = {stat.version}",
        f"aclVersion = {stat.aversion}",
        f"ephemeralOwner = {_hexadecimal(stat.ephemeral_owner)}",
        f"dataLength = {stat.data_length}",
        f"numChildren = {stat.num_children}",
    ]


def stat_row(path: str, stat: Stat) -> dict[str, object]:
    return {
        "path": path,
        "czxid": stat.czxid,
        "ctime": stat.ctime_ms,
        "mzxid": stat.mzxid,
        "mtime": stat.mtime_ms,
        "pzxid": stat.pzxid,
        "cversion": stat.cversion,
        "data_version": stat.version,
        "acl_version": stat.aversion,
        "ephemeral_owner": stat.ephemeral_owner,
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    }


def _hexadecimal(number: int) -> str:
    return f"0x{number & 0xFFFFFFFFFFFFFFFF:x}"


def _date(milliseconds: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(milliseconds / 1000))
