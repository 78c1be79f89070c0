"""What a command line of pk-configs is about: the flags that name entities, in Kafka's order, and whether they fit.

Pure but for the name of an address, which Kafka's tool looks up too.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import click

from pkafka.java.numbers import parse_int

F = TypeVar("F", bound=Callable[..., Any])

TOPICS: Final = "topics"
CLIENTS: Final = "clients"
USERS: Final = "users"
BROKERS: Final = "brokers"
IPS: Final = "ips"
BROKER_LOGGERS: Final = "broker-loggers"
CLIENT_METRICS: Final = "client-metrics"

TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS, BROKER_LOGGERS, CLIENT_METRICS)
"""In the order of Kafka's message."""

ZOOKEEPER_TYPES: Final = (USERS, BROKERS)
"""What may be changed without a broker."""

# Kafka's order of the short flags decides which entity its text is about, whatever the order on the command line.
_NAMED: Final = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker_logger": BROKER_LOGGERS,
    "ip": IPS,
    "client_metrics": CLIENT_METRICS,
}
_DEFAULTS: Final = {
    "client_defaults": CLIENTS,
    "user_defaults": USERS,
    "broker_defaults": BROKERS,
    "ip_defaults": IPS,
}


class Entities(NamedTuple):
    """The entities of a command line: types, and as many names or fewer. An empty name is the default of its type."""

    types: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The first type, which decides what is done."""
        return self.types[0]

    @property
    def name(self) -> str | None:
        """The first name; None: all of the type."""
        return self.names[0] if self.names else None

    @property
    def noun(self) -> str:
        """The first type in the singular."""
        return self.kind[:-1]

    @property
    def pairs(self) -> tuple[tuple[str, str | None], ...]:
        """Each type with its name; None: all of the type."""
        return tuple(
            (kind, self.names[place] if place < len(self.names) else None)
            for place, kind in enumerate(self.types)
        )


class _DefaultName(click.Option):
    """``--entity-default``: an empty name among those of ``--entity-name``, in the order of the command line."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401 - click has no public name for it
        parser.add_option(self, self.opts, dest="entity_name", action="append_const", const="")


def entity_options(function: F) -> F:
    """Add the flags that name entities; :func:`entities_of` reads them."""
    for add in reversed(
        (
            click.option(
                "--entity-type",
                multiple=True,
                metavar="|".join(each for each in TYPES if each != CLIENT_METRICS),
                help="What the settings belong to; users and clients may stand together.",
            ),
            click.option(
                "--entity-name",
                multiple=True,
                metavar="NAME",
                help="Name of the topic, user, client or address, id of the broker.",
            ),
            click.option(
                "--entity-default",
                cls=_DefaultName,
                is_flag=True,
                expose_value=False,
                help="The default of all brokers, users, clients or addresses.",
            ),
            _short("--topic", "NAME", TOPICS),
            _short("--client", "ID", CLIENTS),
            _short("--client-defaults", None, CLIENTS),
            _short("--user", "NAME", USERS),
            _short("--user-defaults", None, USERS),
            _short("--broker", "ID", BROKERS),
            _short("--broker-defaults", None, BROKERS),
            _short("--broker-logger", "ID", BROKER_LOGGERS),
            _short("--ip", "ADDRESS", IPS),
            _short("--ip-defaults", None, IPS),
            click.option("--client-metrics", hidden=True),
        )
    ):
        function = add(function)
    return function


def _short(flag: str, metavar: str | None, kind: str) -> Callable[[F], F]:
    if metavar is None:
        return click.option(flag, is_flag=True, help=f"Short for --entity-type {kind} --entity-default.")
    return click.option(
        flag, metavar=metavar, help=f"Short for --entity-type {kind} --entity-name {metavar}."
    )


def entities_of(flags: Mapping[str, object]) -> Entities:
    """The entities of a command line.

    Raises:
        click.UsageError: they do not fit together, or do not fit the action; in Kafka's words.
    """
    long_types, long_names = _words(flags["entity_type"]), _words(flags["entity_name"])
    short = [(kind, str(flags[flag])) for flag, kind in _NAMED.items() if flags[flag] is not None]
    short += [(kind, "") for flag, kind in _DEFAULTS.items() if flags[flag]]
    types = (*long_types, *(kind for kind, _ in short))
    names = (*long_names, *(name for _, name in short))
    _check_types(types, of_zookeeper=flags["zookeeper"] is not None)
    if short and (long_types or long_names):
        raise click.UsageError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    entities = Entities(types, names)
    _check_names(entities)
    if flags["alter"]:
        _check_altered(entities)
    else:
        _check_described(entities)
    return entities


def _words(value: object) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


def _check_types(types: tuple[str, ...], *, of_zookeeper: bool) -> None:
    twice = [kind for place, kind in enumerate(types) if kind in types[:place]]
    if twice:
        raise click.UsageError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    allowed = ZOOKEEPER_TYPES if of_zookeeper else TYPES
    connection = "a --zookeeper" if of_zookeeper else "a --bootstrap-server or --bootstrap-controller"
    for kind in types:
        if kind not in allowed:
            raise click.UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(allowed)} "
                f"with {connection} argument"
            )
    if not types:
        raise click.UsageError("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise click.UsageError("Only 'users' and 'clients' entity types may be specified together")


def _is_number(text: str) -> bool:
    try:
        parse_int(text)
    except ValueError:
        return False
    return True


def _check_names(entities: Entities) -> None:
    for name in filter(None, entities.names):
        if entities.kind in (BROKERS, BROKER_LOGGERS) and not _is_number(name):
            raise click.UsageError(
                f"The entity name for {entities.kind} must be a valid integer broker id, but it is: {name}"
            )
        if entities.kind == IPS and not _is_address(name):
            raise click.UsageError(
                f"The entity name for ips must be a valid IP or resolvable host, but it is: {name}"
            )
    if "" in entities.names and entities.kind not in (USERS, CLIENTS, BROKERS, IPS):
        raise click.UsageError(f"--entity-default makes no sense for {entities.kind}")


def _is_address(name: str) -> bool:
    import socket

    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return False
    return True


def _check_altered(entities: Entities) -> None:
    if not entities.names:
        raise click.UsageError(
            "an entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            if entities.kind in (USERS, CLIENTS, BROKERS, IPS)
            else f"an entity name must be specified with --alter of {entities.kind}"
        )
    if len(entities.names) != len(entities.types):
        raise click.UsageError("An entity name must be specified for every entity type")


def _check_described(entities: Entities) -> None:
    if entities.kind == BROKER_LOGGERS and not entities.names:
        raise click.UsageError("an entity name must be specified with --describe of broker-loggers")
    if len(entities.names) > len(entities.types):
        raise click.UsageError("More entity names specified than entity types")
