"""The rows of a query, on SQLite: their columns, conditions around them, and text that looks like a parameter."""

import decimal
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from pkafka.connect.connectors.sql_tables import open_engine, rows_of_query, schema_of_table, struct_of_row
from pkafka.connect.data.schema import Schema


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path}/db"
    engine = open_engine({"connection.url": url, "connection.user": None, "connection.password": None})
    with engine.begin() as connection:
        for statement in (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT NOT NULL, paid NUMERIC(8, 2), free NUMERIC)",
            "INSERT INTO t VALUES (1, 'a:b', 1.5, 1.25), (2, '5% :off', NULL, 100), (3, 'c', 2, NULL)",
        ):
            connection.exec_driver_sql(statement)
    yield engine
    engine.dispose()


def test_a_query_has_the_columns_that_the_database_says(engine: Engine) -> None:
    query = "SELECT id AS number, note, paid, free FROM t WHERE note LIKE '%:%' AND note <> 'x :y' ; "
    for _ in range(2):  # nothing is left of the first time
        rows, table = rows_of_query(engine, query)
    schema = schema_of_table(table, "q")
    assert [(each.name, each.schema.type) for each in schema.fields][:2] == [
        ("number", Schema.INT64.type),
        ("note", Schema.STRING.type),
    ]
    with engine.connect() as connection:
        wanted = rows.select().where(rows.c.number > 0).order_by(rows.c.number.desc())
        found = [struct_of_row(schema, row) for row in connection.execute(wanted).mappings()]
    assert [each.get("note") for each in found] == ["5% :off", "a:b"]
    assert [each.get("paid") for each in found] == [None, decimal.Decimal("1.50")]
    assert [each.get("free") for each in found] == ["100", "1.25"]


def test_a_query_that_is_none_is_refused(engine: Engine) -> None:
    with pytest.raises(SQLAlchemyError):
        rows_of_query(engine, "DELETE FROM t")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM t").scalar() == 3
