"""Files of login modules, as Java reads those of ``java.security.auth.login.config``: sections of modules.

Operators of Kafka name such a file in ``KAFKA_OPTS``; it counts where no ``sasl.jaas.config`` does.
``SECTION { MODULE FLAG key=value; ... };`` is the form. In values, ``${name}`` is a property of the ``-D`` beside it.
No error text has a value in it.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.errors import ConfigError
from pkafka.security.jaas import JaasError, LoginModule, Token, check_flag, options_of, tokens_at

PROPERTY: Final = "java.security.auth.login.config"
CLIENT_SECTION: Final = "KafkaClient"
SERVER_SECTION: Final = "KafkaServer"
_ENVIRONMENT: Final = "KAFKA_OPTS"
_REFERENCE: Final = re.compile(r"\$\{([^}]*)\}")


class JaasFile(NamedTuple):
    """A file that has been read."""

    path: str
    sections: Mapping[str, Sequence[LoginModule]]

    def module(self, names: Sequence[str], simple_name: str) -> LoginModule:
        """A login module of the first of these sections that is there, as Kafka looks it up.

        Args:
            names: of the sections.
            simple_name: the class without its package.

        Raises:
            JaasError: none of the sections is there, or it lacks the module.
        """
        found = next((name for name in names if name in self.sections), None)
        if found is None:
            wanted = " or ".join(f"'{name}'" for name in names)
            raise JaasError(f"{self.path} ({PROPERTY} in {_ENVIRONMENT}) has no section {wanted}; add one")
        for module in self.sections[found]:
            if module.simple_name == simple_name:
                return module
        raise JaasError(f"section '{found}' of {self.path} has no {simple_name}; add it there")


def jaas_file() -> JaasFile | None:
    """The file that the environment of this process names, read once; None where it names none.

    Raises:
        ConfigError: it cannot be read, or is no such file; tells the line.
    """
    return _read(os.environ.get(_ENVIRONMENT, ""))


@lru_cache(maxsize=4)
def _read(options: str) -> JaasFile | None:
    properties = _properties(options)
    path = properties.get(PROPERTY, "").removeprefix("=").removeprefix("file:")
    if not path:
        return None
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise ConfigError(
            PROPERTY, f"names {path} in {_ENVIRONMENT}, which cannot be read: {reason}"
        ) from None
    try:
        return JaasFile(path, read_sections(text, properties))
    except JaasError as error:
        raise ConfigError(PROPERTY, f"{path}, {error}") from None


def _properties(options: str) -> dict[str, str]:
    try:
        words = shlex.split(options)
    except ValueError:
        words = options.split()
    return {
        name: value
        for word in words
        if word.startswith("-D")
        for name, _, value in [word.removeprefix("-D").partition("=")]
    }


def read_sections(text: str, properties: Mapping[str, str]) -> dict[str, tuple[LoginModule, ...]]:
    """Read the text of a file.

    Args:
        text: of the file.
        properties: that values may refer to, beside those of the user and ``${/}``.

    Returns:
        The login modules of each section, by its name.

    Raises:
        JaasError: the text is none; begins with ``line N: ``.
    """
    placed = list(tokens_at(text))
    tokens = [token for _, token in placed]
    sections: dict[str, tuple[LoginModule, ...]] = {}
    position = 0
    while position < len(tokens):
        begin = position
        try:
            name, modules, position = _section(tokens, begin)
            if name in sections:
                raise _At(begin, f"has the section {name} twice")
            sections[name] = tuple(_expanded(module, properties, at) for at, module in modules)
        except _At as error:
            at = placed[error.position][0] if error.position < len(placed) else len(text)
            line = text.count("\n", 0, at) + 1
            raise JaasError(f"line {line}: {error}") from None
    return sections


class _At(JaasError):
    """What is wrong, at which token."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position


def _section(tokens: Sequence[Token], begin: int) -> tuple[str, list[tuple[int, LoginModule]], int]:
    """The name and the modules of a section, and the position behind it."""
    if not tokens[begin].is_word:
        raise _At(begin, f"the name of a section should be where {tokens[begin].text!r} is")
    _expect(tokens, begin + 1, "{", "behind the name of a section")
    position, modules = begin + 2, []
    while position < len(tokens) and tokens[position] != ("}", False):
        module, behind = _module(tokens, position)
        modules.append((position, module))
        position = behind
    _expect(tokens, position, "}", "behind the last login module")
    _expect(tokens, position + 1, ";", "behind the section")
    return tokens[begin].text, modules, position + 2


def _expect(tokens: Sequence[Token], position: int, sign: str, where: str) -> None:
    if position >= len(tokens) or tokens[position] != (sign, False):
        raise _At(position, f"{sign!r} is missing {where}")


def _module(tokens: Sequence[Token], begin: int) -> tuple[LoginModule, int]:
    if not tokens[begin].is_word:
        raise _At(begin, f"the class of a login module should be where {tokens[begin].text!r} is")
    try:
        check_flag(tokens[begin + 1 : begin + 2])
        options, used = options_of(tokens[begin + 2 :])
    except JaasError as error:
        raise _At(begin, f"the login module {tokens[begin].text} {error}") from None
    return LoginModule(tokens[begin].text, options), begin + 2 + used


def _expanded(module: LoginModule, properties: Mapping[str, str], at: int) -> LoginModule:
    known = {"/": "/", "user.home": str(Path("~").expanduser()), **properties}

    def value(found: re.Match[str]) -> str:
        if found[1] not in known:
            raise _At(at, f"refers to the property {found[1]}; add -D{found[1]}=... to {_ENVIRONMENT}")
        return known[found[1]]

    options = {key: _REFERENCE.sub(value, text) for key, text in module.options.items()}
    return LoginModule(module.class_name, options)


def file_module(names: Sequence[str], simple_name: str) -> LoginModule | None:
    """A login module of the environment's file; None where there is no file.

    Raises:
        ConfigError: the file is of no use.
        JaasError: it lacks the module.
    """
    file = jaas_file()
    return file.module(names, simple_name) if file is not None else None
