"""The SQL connectors on PostgreSQL: its types, its zones of time, queries, connections that break."""

import datetime
import decimal
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pkafka.clients.producer import Producer
from pkafka.testing import Broker
from tests.connect_fixtures import module_worker, table_topic
from tests.connect_workers import ConnectWorker
from tests.postgres import Postgres, missing, postgres
from tests.talk import Talk, wait_for

__all__ = ["module_worker", "table_topic"]

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres(timezone="America/New_York") as server:
        yield server


def create(worker: ConnectWorker, configs: dict[str, str]) -> None:
    worker.create(configs)
    worker.rest.wait_until(configs["name"], "RUNNING", "RUNNING")


def source(database: Postgres, topic: str, **more: str) -> dict[str, str]:
    return {
        "name": f"{topic}-source",
        "connector.class": "JdbcSource",
        "connection.url": database.jdbc,
        "connection.user": "postgres",
        "topic.prefix": topic,
        "poll.interval.ms": "50",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def sink(database: Postgres, topic: str, table: str, **more: str) -> dict[str, str]:
    return {
        "name": f"{topic}-sink",
        "connector.class": "JdbcSink",
        "connection.url": database.jdbc,
        "connection.user": "postgres",
        "topics": topic,
        "table.name.format": table,
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def payloads(talk: Talk, topic: str) -> list[Any]:
    return [json.loads(each.value or b"")["payload"] for each in talk.read(topic)]


TYPES = """CREATE TABLE {} (
    id BIGINT PRIMARY KEY, small SMALLINT, whole INTEGER NOT NULL, yes BOOLEAN, single REAL, twice DOUBLE PRECISION,
    paid NUMERIC(10, 2), free NUMERIC, name TEXT, code VARCHAR(3), data BYTEA, day DATE, clock TIME, at TIMESTAMP,
    zoned TIMESTAMPTZ, doc JSONB, tag UUID, list INTEGER[])"""
VALUES = """INSERT INTO {} VALUES (
    1, 2, 3, true, 1.5, 2.5, 12.30, 1.23456789012345678901, 'ä', 'abc', '\\x00ff', '2026-01-02', '03:04:05',
    '2026-01-02 03:04:05.006', '2026-01-02 03:04:05.006+00', '{{"a": [1, null]}}',
    '00000000-0000-0000-0000-000000000001', '{{1,2}}'), (2, {})"""


def test_every_type_goes_through_a_topic(
    worker: ConnectWorker, talk: Talk, database: Postgres, topic: str
) -> None:
    table, prefix = f"{topic}t", "of_"
    talk.create(prefix + table)
    database(TYPES.format(table), VALUES.format(table, ", ".join(["NULL", "4", *["NULL"] * 15])))
    create(worker, source(database, topic, topic_prefix=prefix, mode="incrementing", table_whitelist=table))
    wait_for(lambda: len(payloads(talk, prefix + table)) == 2)
    first, second = payloads(talk, prefix + table)
    at = round(datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, datetime.UTC).timestamp() * 1000)
    assert (first["at"], first["zoned"]) == (at, at)
    assert (first["free"], first["tag"]) == ("1.23456789012345678901", "00000000-0000-0000-0000-000000000001")
    assert (json.loads(first["doc"]), json.loads(first["list"])) == ({"a": [1, None]}, [1, 2])
    assert {name for name, value in second.items() if value is not None} == {"id", "whole"}
    create(worker, sink(database, prefix + table, f"{table}_copy", auto_create="true"))
    wait_for(lambda: len(database.rows(f"{table}_copy")) == 2)
    copy = database(
        f"SELECT small, whole, yes, paid, data, day, clock, at, name FROM {table}_copy WHERE id = 1"
    )
    assert copy == [
        (
            *(2, 3, True, decimal.Decimal("12.30"), b"\x00\xff", datetime.date(2026, 1, 2)),
            *(datetime.time(3, 4, 5), datetime.datetime(2026, 1, 2, 3, 4, 5, 6000), "ä"),
        )
    ]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ"])
def test_changes_come_in_their_order_in_any_zone(
    worker: ConnectWorker, talk: Talk, database: Postgres, topic: str, kind: str
) -> None:
    table, prefix = f"{topic}t", "of_"
    talk.create(prefix + table)
    now = "now()" if kind == "TIMESTAMPTZ" else "now() AT TIME ZONE 'UTC'"
    database(
        f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, changed {kind})",
        f"INSERT INTO {table} VALUES (1, {now})",
    )
    create(
        worker,
        source(
            database,
            topic,
            topic_prefix=prefix,
            mode="timestamp",
            timestamp_column_name="changed",
            table_whitelist=table,
        ),
    )
    wait_for(lambda: len(payloads(talk, prefix + table)) == 1)
    database(f"INSERT INTO {table} VALUES (2, {now})")
    wait_for(lambda: len(payloads(talk, prefix + table)) == 2)
    database(f"UPDATE {table} SET changed = {now} WHERE id = 1")
    wait_for(lambda: len(payloads(talk, prefix + table)) == 3)
    assert [each["id"] for each in payloads(talk, prefix + table)] == [1, 2, 1]


def test_rows_of_a_query(worker: ConnectWorker, talk: Talk, database: Postgres, topic: str) -> None:
    database(
        f"CREATE TABLE {topic}a (id SERIAL PRIMARY KEY, customer INTEGER, note TEXT)",
        f"CREATE TABLE {topic}b (id INTEGER PRIMARY KEY, name TEXT)",
        f"INSERT INTO {topic}b VALUES (1, 'Ann'), (2, 'Bob')",
        f"INSERT INTO {topic}a (customer, note) VALUES (1, '5% :off'), (2, 'none'), (2, '7% :off')",
    )
    query = (
        f"SELECT a.id::bigint AS number, b.name, a.note FROM {topic}a a JOIN {topic}b b ON a.customer = b.id"
        " WHERE a.note LIKE '%% :off' OR a.note LIKE '%\\% :off';"
    )
    configs = source(
        database,
        topic,
        mode="incrementing",
        query=query,
        incrementing_column_name="number",
        batch_max_rows="1",
    )
    create(worker, configs)
    wait_for(lambda: len(payloads(talk, topic)) == 2)
    database(f"INSERT INTO {topic}a (customer, note) VALUES (1, '9% :off')")
    wait_for(lambda: len(payloads(talk, topic)) == 3)
    found = payloads(talk, topic)
    assert [(each["number"], each["name"], each["note"]) for each in found] == [
        (1, "Ann", "5% :off"),
        (3, "Bob", "7% :off"),
        (4, "Ann", "9% :off"),
    ]
    worker.rest.call("PUT", f"/connectors/{configs['name']}/stop")
    path = f"/connectors/{configs['name']}/offsets"
    stored = {"offsets": [{"partition": {"query": "query"}, "offset": {"incrementing": 4}}]}
    wait_for(lambda: worker.rest.call("GET", path).body == stored)


def test_a_connection_that_breaks_is_made_again(
    worker: ConnectWorker, broker: Broker, talk: Talk, database: Postgres, topic: str
) -> None:
    table = f"{topic}t"
    database(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY)")
    create(worker, sink(database, topic, table, retry_backoff_ms="50"))
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(3):
        producer.send(topic, json.dumps({"schema": schema, "payload": {"id": number}}).encode())
        producer.flush(60)
        wait_for(lambda: len(database.rows(table)) == number + 1)  # noqa: B023 - called at once
        database(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
    producer.close(60)
    assert worker.rest.state(f"{topic}-sink") == ("RUNNING", ("RUNNING",))


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"table.whitelist": "a"}, "query stands in place of tables"),
        ({"incrementing.column.name": ""}, "The rows of a query have no key"),
    ],
)
def test_settings_that_do_not_go_with_a_query_are_refused(
    worker: ConnectWorker, database: Postgres, configs: dict[str, str], said: str
) -> None:
    whole = (
        source(database, "t", query="SELECT 1 AS id", mode="incrementing", incrementing_column_name="id")
        | configs
    )
    answer = worker.rest.call("POST", "/connectors", {"name": whole["name"], "config": whole})
    assert answer.status == 400
    assert said in answer.body["message"]


def test_a_query_that_the_database_refuses_fails_the_connector(
    worker: ConnectWorker, database: Postgres, topic: str
) -> None:
    configs = source(database, topic, query="SELECT nothing", mode="bulk")
    worker.create(configs)
    worker.rest.wait_until(configs["name"], "FAILED")
    status = worker.rest.call("GET", f"/connectors/{configs['name']}/status").body
    assert "The query cannot be looked at" in status["connector"]["trace"]
