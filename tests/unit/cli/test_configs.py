"""What pk-configs is asked for: entities in Kafka's order, credentials, and that no secret is repeated."""

from typing import Any

import click
import pytest

from pkafka.cli.configs import main
from pkafka.cli.configs.entities import Entities, entities_of, entity_options
from pkafka.cli.configs.quotas import parse_credential
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.net.scram import ScramMechanism

SHA_256 = ScramMechanism.SCRAM_SHA_256


def parsed(line: str, *, alter: bool = False, zookeeper: str | None = None) -> Entities:
    """The entities of a command line."""
    found: list[Entities] = []

    @click.command()
    @entity_options
    def command(**flags: Any) -> None:
        found.append(entities_of({**flags, "alter": alter, "zookeeper": zookeeper}))

    command.main(line.split(), standalone_mode=False)
    return found[0]


@pytest.mark.parametrize(
    ("line", "types", "names"),
    [
        ("--entity-type users", "users", []),
        ("--entity-type users --entity-default", "users", [""]),
        ("--user-defaults", "users", [""]),
        # As they come, with long flags ...
        (
            "--entity-type clients --entity-default --entity-type users --entity-name a",
            "clients users",
            ["", "a"],
        ),
        (
            "--entity-name a --entity-default --entity-type users --entity-type clients",
            "users clients",
            ["a", ""],
        ),
        ("--entity-type users --entity-name a --entity-type clients", "users clients", ["a"]),
        # ... in Kafka's order, with short ones: names before defaults.
        ("--user a --client b", "clients users", ["b", "a"]),
        ("--client-defaults --user a", "users clients", ["a", ""]),
        ("--user-defaults --client-defaults", "clients users", ["", ""]),
        ("--ip 10.0.0.1", "ips", ["10.0.0.1"]),
        ("--broker 0", "brokers", ["0"]),
    ],
)
def test_entities_in_order(line: str, types: str, names: list[str]) -> None:
    assert parsed(line) == (tuple(types.split()), tuple(names))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "At least one entity type"),
        (
            "--entity-type nonsense",
            "Invalid entity type nonsense, the entity type must be one of topics, clients",
        ),
        ("--entity-type users --entity-type users", "Duplicate entity type"),
        ("--user a --user-defaults", "Duplicate entity type"),
        ("--user a --topic t", "Only 'users' and 'clients' entity types may be specified together"),
        ("--user a --entity-type clients", "should not be used in conjunction"),
        ("--user a --entity-default", "should not be used in conjunction"),
        ("--broker x", "must be a valid integer broker id, but it is: x"),
        ("--ip nowhere.invalid", "must be a valid IP or resolvable host, but it is: nowhere.invalid"),
        ("--entity-type topics --entity-default", "makes no sense for topics"),
        ("--entity-type broker-loggers", "an entity name must be specified with --describe"),
        (
            "--entity-type users --entity-name a --entity-name b",
            "More entity names specified than entity types",
        ),
    ],
)
def test_entities_that_do_not_fit(line: str, words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        parsed(line)


def test_entities_that_cannot_be_altered() -> None:
    for line in ("--entity-type users", "--entity-type topics"):
        with pytest.raises(click.UsageError, match="must be specified with --alter of"):
            parsed(line, alter=True)
    with pytest.raises(click.UsageError, match="for every entity type"):
        parsed("--entity-type users --entity-name a --entity-type clients", alter=True)


def test_by_zookeeper_only_users_and_brokers() -> None:
    assert parsed("--user a", zookeeper="z:1").kind == "users"
    for line in ("--entity-type topics", "--user a --client b"):
        with pytest.raises(click.UsageError, match="one of users, brokers with a --zookeeper argument"):
            parsed(line, zookeeper="z:1")


def test_credentials_are_read() -> None:
    assert parse_credential(SHA_256, "password=a=b,c") == (4096, b"a=b,c")
    assert parse_credential(SHA_256, "iterations=8192,password=ü") == (8192, "ü".encode())
    assert parse_credential(SHA_256, "iterations=-1,password=") == (4096, b"")


@pytest.mark.parametrize(
    "text", ["hush", "iterations=,password=hush", "iterations=x,password=hush", "hush,password=x"]
)
def test_what_is_no_credential_is_not_repeated(text: str) -> None:
    with pytest.raises(CommandError, match="Invalid credential property SCRAM-SHA-256") as refused:
        parse_credential(SHA_256, text)
    assert "hush" not in f"{refused.value.message}{refused.value.hint}"


def test_no_secret_in_what_is_said_of_a_wrong_line(capsys: pytest.CaptureFixture[str]) -> None:
    entity = ("--bootstrap-server", "127.0.0.1:1", "--alter", "--user", "a", "--add-config")
    for wrong in ("SCRAM-SHA-256=password=hush", "SCRAM-SHA-256=[password=a],hush", "SCRAM-SHA-256"):
        for more in ((), ("--output", "json")):
            assert main.run([*entity, wrong, *more]) == 2
            printed = capsys.readouterr()
            assert "hush" not in printed.out + printed.err
