"""Where the settings of a command's client come from: flag over property over environment over file over profile.

KIP-1137 asks for this order. Where the command line names a profile, the environment names no brokers: the profile says
which cluster is meant.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pkafka.cli.kit.output import OutputFormat, View, show

if TYPE_CHECKING:
    from pkafka.clients.config import ClientConfig

SERVERS: Final = "bootstrap.servers"


class Settings(dict[str, object]):
    """Settings of a client with the place that each comes from; what is changed later is the command's own."""

    def __init__(self) -> None:
        super().__init__()
        self._given: dict[str, tuple[object, str]] = {}

    def lay(self, values: Mapping[str, object], source: str) -> None:
        """Put settings over the present ones."""
        self.update(values)
        self._given.update({key: (value, source) for key, value in values.items()})

    def source(self, key: str) -> str:
        """The place that a key has its value from."""
        value, source = self._given.get(key, (None, ""))
        return source if source and value == self.get(key) else "command"


def client_settings(
    *,
    profile: str | None = None,
    file: str | None = None,
    pairs: Mapping[str, str] | None = None,
    pairs_option: str = "",
    servers: str | None = None,
) -> Settings:
    """The settings that were given, each from the place that counts most.

    Args:
        profile: as the command line names it.
        file: a properties file.
        pairs: what the flag ``pairs_option`` gave.
        servers: what ``--bootstrap-server`` gave.

    Raises:
        ConfigError: a file cannot be read, or there is no such profile.
    """
    from pkafka.cli.kit.profiles import find_profile

    settings = Settings()
    found = find_profile(profile or os.environ.get("PK_PROFILE") or None)
    if found is not None:
        settings.lay(found.settings, f"profile {found.name} in {found.path}")
    if file is not None:
        from pkafka.java.properties import load_properties

        settings.lay(load_properties(file), f"file {file}")
    environment = os.environ.get("PK_BOOTSTRAP_SERVER")
    if environment and not (profile and found is not None and SERVERS in found.settings):
        settings.lay({SERVERS: environment}, "PK_BOOTSTRAP_SERVER")
    settings.lay(pairs or {}, pairs_option)
    if servers:
        settings.lay({SERVERS: servers}, "--bootstrap-server")
    return settings


def show_settings(
    settings: Mapping[str, object], config: "type[ClientConfig]", asked: OutputFormat | None
) -> None:
    """Print every setting that has an effect and where it comes from, secrets masked.

    Args:
        config: the kind of client: its defaults are shown too.

    Raises:
        ConfigError: a value is wrong.
    """
    config.from_properties(settings)
    rows: list[dict[str, object]] = []
    values = {**config.defaults(), **settings}
    for key in sorted(values):
        value = values[key]
        source = "default"
        if key in settings:
            source = settings.source(key) if isinstance(settings, Settings) else "command"
        rows.append({"key": key, "value": _shown(key, value), "source": source})
    show(
        View("settings", [f"{row['key']}={row['value'] or ''} ({row['source']})" for row in rows], rows),
        asked,
    )


def _shown(key: str, value: object) -> str | None:
    from pkafka.tools.secret_keys import HIDDEN, is_secret

    if value is None or value == ():
        return None
    if is_secret(key):
        return HIDDEN
    if isinstance(value, tuple | list):
        return ",".join(str(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
