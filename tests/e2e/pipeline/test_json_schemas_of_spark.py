"""What commands on Spark print as JSON is what their schemas promise; as tests/e2e/test_json_schemas.py."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pkafka.testing import Broker
from tests.e2e.json_cases.case import At
from tests.e2e.test_json_schemas import CASES, OF_SPARK
from tests.spark import share
from tests.talk import Talk

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.mark.parametrize("name", sorted(OF_SPARK))
def test_what_a_command_prints_is_what_its_schema_promises(
    name: str,
    pkafka_broker: Broker,
    talk: Talk,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
) -> None:
    share(spark, monkeypatch)
    CASES[name](At(name, pkafka_broker, talk, tmp_path, capsys))
