"""Tables into topics and topics into tables: the SQL connectors, on SQLite."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pkafka.testing import Broker
from tests.connect_fixtures import module_worker, table_topic
from tests.connect_workers import ConnectWorker
from tests.talk import Talk, wait_for

__all__ = ["module_worker", "table_topic"]


class Database:
    """A file of SQLite."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement."""
        rows: list[tuple[Any, ...]] = []
        with contextlib.closing(sqlite3.connect(self.path, timeout=60)) as connection:
            for statement in statements:
                rows = connection.execute(statement).fetchall()
            connection.commit()
        return rows

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All of a table, in order; none while it is missing."""
        try:
            return sorted(self(f"SELECT * FROM {table}"))
        except sqlite3.OperationalError:
            return []


@pytest.fixture
def source_db(tmp_path: Path) -> Database:
    return Database(tmp_path / "source.db")


@pytest.fixture
def target_db(tmp_path: Path) -> Database:
    return Database(tmp_path / "target.db")


def source(topic: str, database: Database, **more: str) -> dict[str, str]:
    return {
        "name": f"{topic}-source",
        "connector.class": "JdbcSource",
        "connection.url": f"jdbc:sqlite:{database.path}",
        "topic.prefix": topic.removesuffix("people"),
        "poll.interval.ms": "50",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def sink(topic: str, database: Database, **more: str) -> dict[str, str]:
    return {
        "name": f"{topic}-sink",
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "connection.url": f"sqlite:///{database.path}",
        "topics": topic,
        "table.name.format": "people",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def create(worker: ConnectWorker, configs: dict[str, str]) -> None:
    answer = worker.rest.call("POST", "/connectors", {"name": configs["name"], "config": configs})
    assert answer.status == 201, answer
    worker.rest.wait_until(configs["name"], "RUNNING", "RUNNING")


def payloads(talk: Talk, topic: str) -> list[Any]:
    return [json.loads(each.value or b"")["payload"] for each in talk.read(topic)]


PEOPLE = "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, height REAL, born DATE, paid NUMERIC(8, 2))"


def test_new_rows_come_once_and_go_into_another_table(
    worker: ConnectWorker, talk: Talk, source_db: Database, target_db: Database, topic: str
) -> None:
    topic = f"{topic}people"
    talk.create(topic)
    source_db(
        PEOPLE, "INSERT INTO people VALUES (1, 'Ann', 1.7, '1990-01-31', 12.5), (2, 'Bob', NULL, NULL, NULL)"
    )
    configs = source(topic, source_db, mode="incrementing")
    create(worker, configs)
    create(
        worker,
        sink(
            topic, target_db, auto_create="true", insert_mode="upsert", pk_mode="record_value", pk_fields="id"
        ),
    )
    wait_for(lambda: len(target_db.rows("people")) == 2)
    source_db("INSERT INTO people VALUES (3, 'Cid', 1.8, '2000-12-01', 0.01)")
    wait_for(lambda: len(target_db.rows("people")) == 3)
    assert target_db.rows("people") == source_db.rows("people")
    # A restart begins behind the last row.
    name = configs["name"]
    worker.rest.call("PUT", f"/connectors/{name}/stop")
    stored = {"offsets": [{"partition": {"protocol": "1", "table": "people"}, "offset": {"incrementing": 3}}]}
    wait_for(lambda: worker.rest.call("GET", f"/connectors/{name}/offsets").body == stored)
    source_db("INSERT INTO people (id, name) VALUES (4, 'Dan')")
    worker.rest.call("PUT", f"/connectors/{name}/resume")
    wait_for(lambda: len(target_db.rows("people")) == 4)
    assert [each["id"] for each in payloads(talk, topic)] == [1, 2, 3, 4]


def test_changed_rows_come_again(worker: ConnectWorker, talk: Talk, source_db: Database, topic: str) -> None:
    topic = f"{topic}people"
    talk.create(topic)
    source_db(
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, changed DATETIME)",
        "INSERT INTO people VALUES (1, 'a', '2024-01-01 00:00:00.000001'), (2, 'b', '2024-01-01 00:00:00.000001')",
    )
    create(worker, source(topic, source_db, mode="timestamp+incrementing", timestamp_column_name="changed"))
    wait_for(lambda: len(payloads(talk, topic)) == 2)
    source_db(
        "UPDATE people SET name = 'a2', changed = '2024-01-02 00:00:00' WHERE id = 1",
        "INSERT INTO people VALUES (3, 'c', '2024-01-01 00:00:00.000001')",
    )
    wait_for(lambda: len(payloads(talk, topic)) == 4)
    assert [(each["id"], each["name"]) for each in payloads(talk, topic)] == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (1, "a2"),
    ]


def with_schema(key: int | None, value: dict[str, Any] | None) -> tuple[bytes | None, bytes | None]:
    """A record as JsonConverter reads it, with a key that is a number."""
    kinds = {int: "int64", str: "string", float: "double"}
    fields = [
        {"field": name, "type": kinds[type(each)], "optional": name != "id"}
        for name, each in (value or {}).items()
    ]
    made = {"schema": {"type": "struct", "fields": fields}, "payload": value}
    return (
        None if key is None else json.dumps({"schema": {"type": "int64"}, "payload": key}).encode(),
        None if value is None else json.dumps(made).encode(),
    )


def send(broker: Broker, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    from pkafka.clients.producer import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value in records:
        producer.send(topic, value, key)
    producer.close(60)


def test_tables_grow_columns_and_lose_rows(
    worker: ConnectWorker, broker: Broker, target_db: Database, topic: str
) -> None:
    create(
        worker,
        sink(
            topic,
            target_db,
            auto_create="true",
            auto_evolve="true",
            delete_enabled="true",
            insert_mode="upsert",
            pk_mode="record_key",
            pk_fields="id",
        ),
    )
    send(
        broker,
        topic,
        with_schema(1, {"name": "a"}),
        with_schema(2, {"name": "b"}),
        with_schema(1, {"name": "c"}),
    )
    wait_for(lambda: target_db.rows("people") == [(1, "c"), (2, "b")])
    send(broker, topic, with_schema(3, {"name": "d", "age": 7}), with_schema(2, None))
    wait_for(lambda: target_db.rows("people") == [(1, "c", None), (3, "d", 7)])


def test_records_that_no_row_can_be_made_of_are_dead_letters(
    worker: ConnectWorker, broker: Broker, talk: Talk, target_db: Database, topic: str
) -> None:
    dead = f"{topic}_dead"
    configs = sink(
        topic,
        target_db,
        auto_create="true",
        pk_mode="record_value",
        pk_fields="id",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=dead,
    ) | {
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    create(worker, configs)
    plain = json.dumps({"schema": {"type": "string"}, "payload": "no row"}).encode()
    send(broker, topic, with_schema(None, {"id": 1}), (None, plain), with_schema(None, {"id": 2}))
    wait_for(lambda: target_db.rows("people") == [(1,), (2,)])
    wait_for(lambda: len(talk.read(dead)) == 1)
    (letter,) = talk.read(dead)
    assert letter.value == plain
    headers = dict(letter.headers)
    assert headers["__connect.errors.stage"] == b"TASK_PUT"
    assert b"is no struct" in (headers["__connect.errors.exception.message"] or b"")


def test_rows_that_a_constraint_forbids_are_found_in_their_batch(
    worker: ConnectWorker, broker: Broker, talk: Talk, target_db: Database, topic: str
) -> None:
    dead = f"{topic}_dead"
    target_db("CREATE TABLE people (id INTEGER PRIMARY KEY, age INTEGER CHECK (age < 150))")
    ages = {number: 999 if number in (7, 8, 30) else number for number in range(40)}
    send(broker, topic, *(with_schema(None, {"id": number, "age": age}) for number, age in ages.items()))
    configs = sink(
        topic,
        target_db,
        pk_mode="record_value",
        pk_fields="id",
        errors_tolerance="all",
        pkafka_errors_bisect="true",
        errors_deadletterqueue_topic_name=dead,
    ) | {
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    create(worker, configs)
    good = [(number, age) for number, age in ages.items() if age < 150]
    wait_for(lambda: target_db.rows("people") == good)
    wait_for(lambda: len(talk.read(dead)) == 3)
    letters = [dict(each.headers) for each in talk.read(dead)]
    assert [each["__connect.errors.offset"] for each in letters] == [b"7", b"8", b"30"]
    assert {each["__connect.errors.stage"] for each in letters} == {b"TASK_PUT"}
    assert {each["__connect.errors.exception.class.name"] for each in letters} == {
        b"org.apache.kafka.connect.errors.DataException"
    }
    assert all(
        b"CHECK constraint failed" in (each["__connect.errors.exception.message"] or b"") for each in letters
    )
    worker.rest.wait_until(configs["name"], "RUNNING", "RUNNING")
    offsets = f"/connectors/{configs['name']}/offsets"
    taken = [{"partition": {"kafka_topic": topic, "kafka_partition": 0}, "offset": {"kafka_offset": 40}}]
    wait_for(lambda: worker.rest.call("GET", offsets).body["offsets"] == taken)


def test_a_database_that_is_locked_is_waited_for(
    worker: ConnectWorker, broker: Broker, target_db: Database, topic: str
) -> None:
    target_db("CREATE TABLE people (id INTEGER PRIMARY KEY)")
    configs = sink(topic, target_db, pk_mode="record_value", retry_backoff_ms="50", max_retries="100000")
    create(worker, configs | {"connection.url": f"sqlite:///{target_db.path}?timeout=0"})
    with contextlib.closing(sqlite3.connect(target_db.path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        send(broker, topic, with_schema(None, {"id": 1}))
        log = worker.log
        wait_for(lambda: "The rows are not written for now" in log.read_text())
        holder.execute("ROLLBACK")
    wait_for(lambda: target_db.rows("people") == [(1,)])
    assert worker.rest.state(configs["name"]) == ("RUNNING", ("RUNNING",))


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"connector.class": "JdbcSource", "mode": ""}, "Query mode must be specified"),
        ({"connector.class": "JdbcSource", "mode": "timestamp"}, "Timestamp column(s) must be specified"),
        ({"connector.class": "JdbcSource", "mode": "odd"}, "String must be one of"),
        ({"connector.class": "JdbcSink", "topics": "t", "insert.mode": "upsert"}, "needs a key"),
        (
            {"connector.class": "JdbcSink", "topics": "t", "delete.enabled": "true"},
            "only supported for pk.mode record_key",
        ),
        (
            {"connector.class": "JdbcSink", "topics": "t", "pkafka.errors.bisect": "true"},
            "pkafka.errors.bisect needs errors.tolerance=all",
        ),
        (
            {
                "connector.class": "FileStreamSink",
                "topics": "t",
                "errors.tolerance": "all",
                "pkafka.errors.bisect": "true",
            },
            "does not say that records may be put again",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    worker: ConnectWorker, source_db: Database, configs: dict[str, str], said: str
) -> None:
    whole = {
        "name": "refused",
        "connection.url": f"sqlite:///{source_db.path}",
        "topic.prefix": "x",
        **configs,
    }
    answer = worker.rest.call("POST", "/connectors", {"name": "refused", "config": whole})
    assert answer.status == 400
    assert said in answer.body["message"]


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({"connection.url": "nothing"}, "connection.url is no URL of a database"),
        ({"connection.url": "oddsql://x/y"}, "connection.url is no URL of a database that is known here"),
        ({"table.whitelist": "none"}, "The database has no table none; it has people"),
    ],
)
def test_a_connector_that_cannot_start_says_why(
    worker: ConnectWorker, source_db: Database, topic: str, configs: dict[str, str], said: str
) -> None:
    source_db(PEOPLE)
    whole = source(topic, source_db, mode="incrementing") | configs
    name = whole["name"]
    worker.rest.call("POST", "/connectors", {"name": name, "config": whole})
    worker.rest.wait_until(name, "FAILED")
    status = worker.rest.call("GET", f"/connectors/{name}/status").body
    assert said in status["connector"]["trace"].partition("\n")[0]
