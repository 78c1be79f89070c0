"""The reference names everything there is; that it is up to date, test_generated.py holds."""

import re
from pathlib import Path

import pytest

from pkafka.clients.config import ClientConfig, ConsumerConfig, ProducerConfig
from pkafka.clients.config.documentation import ALL_CLIENTS, CONSUMER, PRODUCER, WITHOUT_EFFECT, about
from pkafka.protocol.api import ApiKey
from pkafka.server.config.keys import broker_keys, topic_keys
from pkafka.server.config.keys.effects import BROKER_EFFECTIVE
from scripts import reference

PAGES = reference.files()
CLIENTS: dict[str, type[ClientConfig]] = {
    "admin": ClientConfig,
    "consumer": ConsumerConfig,
    "producer": ProducerConfig,
}


def cells(page: str, column: int) -> set[str]:
    """What stands in a column of all tables of a page."""
    rows = [line for line in PAGES[f"{reference.FOLDER}/{page}.md"].splitlines() if line.startswith("| ")]
    return {re.split(r"(?<!\\)\|", row)[column].strip().strip("`") for row in rows}


def test_every_request_and_every_key_has_a_row() -> None:
    assert {str(int(key)) for key in ApiKey} <= cells("requests", 1)
    shown = {name for name, key in broker_keys().items() if not key.internal or name in BROKER_EFFECTIVE}
    assert cells("broker-configs", 1) == shown | {"key"}
    assert cells("topic-configs", 1) == topic_keys().keys() | {"key"}
    every = {key for config in CLIENTS.values() for key in config.defaults()}
    assert cells("client-configs", 1) == every | WITHOUT_EFFECT.keys() | {"key"}


@pytest.mark.parametrize("client", CLIENTS)
def test_every_key_of_a_client_is_described_in_one_line(client: str) -> None:
    lines = {key: about(key, client) for key in CLIENTS[client].defaults()}
    assert {each.importance for each in lines.values()} <= {"high", "medium", "low"}
    assert [key for key, each in lines.items() if not each.text.endswith(".") or "\n" in each.text] == []


def test_nothing_is_described_that_is_no_key() -> None:
    assert ALL_CLIENTS.keys() == ClientConfig.defaults().keys()
    assert CONSUMER.keys() <= ConsumerConfig.defaults().keys()
    assert PRODUCER.keys() <= ProducerConfig.defaults().keys()


def test_metrics_of_every_kind_are_listed_and_described() -> None:
    names = cells("metrics", 1) | cells("metrics", 2)
    assert "kafka_server_brokertopicmetrics_messagesin_total" in names
    assert "kafka.log:type=Log,name=Size,topic=TOPIC,partition=NUMBER" in names
    for client, partial in (("producer", "record-send-rate"), ("consumer", "records-lag-max")):
        assert {f"{client}-node-metrics", partial} <= names
    assert {"topic", "topic, partition", "node-id"} <= cells("metrics", 3)
    page = PAGES[f"{reference.FOLDER}/metrics.md"]
    assert not re.search(r"^\| [a-z-]+metrics.*\|  \|$", page, re.MULTILINE), "a metric without a description"


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_tables(page: str) -> None:
    columns = 0
    for line in PAGES[page].splitlines():
        bars = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (columns and bars) or bars == columns, line
        columns = bars


def test_an_installation_has_the_pages() -> None:
    assert f'"share/doc/pkafka/reference" = ["{reference.FOLDER}/*.md"]' in Path("pyproject.toml").read_text(
        "utf-8"
    )
