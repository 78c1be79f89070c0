"""A session of Spark's for the tests of a module: starting one takes seconds."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pkafka.pipeline.session import spark_session


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """On both cores, as a command has it."""
    with spark_session("tests", master="local[2]") as session:
        yield session
