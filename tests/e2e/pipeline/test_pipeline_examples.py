"""The pipelines of docs/pipelines.md do what is said of them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pkafka.pipeline.definition import parse
from pkafka.pipeline.runner import run_batch, run_stream
from pkafka.pipeline.steps import build
from pkafka.tools.servers.local_broker import Broker, running_broker
from tests.talk import talking

pytestmark = pytest.mark.timeout(900)

PAGE = Path(__file__).parents[3] / "docs" / "pipelines.md"
EXAMPLES = {
    name: text
    for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    for name in re.findall(r"^# (\S+)\.yaml: ", text)
}
DERBY = {"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with the topics that the examples name."""
    orders = [(1, "ann", 50.0), (2, "bob", 500.0), (3, "ann", 700.0)]
    values = [json.dumps({"id": id, "customer": by, "amount": amount}) for id, by, amount in orders]
    with running_broker(tmp_path_factory.mktemp("broker")) as broker, talking(broker.bootstrap) as talk:
        talk.create("orders")
        talk.create("named-orders")
        talk.create("copied-orders")
        talk.send("orders", *(value.encode() for value in values))
        yield broker


def run(spark: SparkSession, text: str, **values: str) -> None:
    pipeline = parse(text, name="example", values=values, environment={})
    frame = build(spark, pipeline).frame
    if pipeline.is_stream:
        run_stream(frame, pipeline, on_batch=lambda _batch: None, is_stopped=lambda: False)
    else:
        run_batch(frame, pipeline, is_stopped=lambda: False)


def test_every_example_is_tried() -> None:
    assert set(EXAMPLES) == {"large-orders", "copy", "logs-to-table", "with-names", "totals"}


def test_large_orders(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    to_its_end = EXAMPLES["large-orders"].replace("trigger: 10s", "trigger: available-now")
    run(spark, to_its_end, servers=broker.bootstrap, folder=str(tmp_path), limit="400")
    rows = spark.read.parquet(str(tmp_path / "files"))
    assert rows.columns == ["id", "customer", "amount", "timestamp", "day"]
    assert sorted(row.id for row in rows.collect()) == [2, 3]


def test_copy(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    for _ in range(2):
        run(spark, EXAMPLES["copy"], servers=broker.bootstrap, state=str(tmp_path / "state"))
    with talking(broker.bootstrap) as talk:
        found, orders = talk.read("copied-orders"), talk.read("orders")
    assert [record.value for record in found] == [record.value for record in orders]


def test_logs_to_table(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    run(spark, EXAMPLES["logs-to-table"], data=str(broker.log_dir), folder=str(tmp_path / "table"))
    rows = spark.read.parquet(str(tmp_path / "table")).orderBy("offset").collect()
    assert [json.loads(row.value)["id"] for row in rows] == [1, 2, 3]


def test_with_names(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_text("customer,name\nann,Ann A.\n")
    values = {"customers": str(tmp_path / "customers.csv"), "state": str(tmp_path / "state")}
    run(spark, EXAMPLES["with-names"], servers=broker.bootstrap, **values)
    with talking(broker.bootstrap) as talk:
        found = [json.loads(record.value or b"") for record in talk.read("named-orders")]
    assert found == [
        {"id": 1, "amount": 50.0, "name": "Ann A."},
        {"id": 3, "amount": 700.0, "name": "Ann A."},
    ]


def test_totals(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path / 'shop'};create=true"
    for _ in range(2):  # the second run replaces what the first wrote
        run(spark, EXAMPLES["totals"], servers=broker.bootstrap, url=url, **DERBY)
    rows = spark.read.format("jdbc").options(url=url, dbtable="totals", **DERBY).load().collect()
    assert {row.customer: row.total for row in rows} == {"ann": 750.0, "bob": 500.0}
