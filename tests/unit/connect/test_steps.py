"""The steps of a record: transforms with their predicates."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from pkafka.connect.config_def import ConfigDef
from pkafka.connect.connector_config import ConnectorSettings
from pkafka.connect.connectors.file_stream import FileStreamSourceConnector
from pkafka.connect.data.records import ConnectRecord, SourceRecord
from pkafka.connect.data.schema import Schema
from pkafka.connect.errors import ConnectError, DataError
from pkafka.connect.plugins import load_plugins
from pkafka.connect.steps import Transforms
from pkafka.connect.tolerance import ErrorHandling, ErrorSettings

RECORD = SourceRecord("t", None, None, None, Schema.STRING, "v")


class Raising:
    """A predicate that no record can be held against."""

    CONFIG = ConfigDef()

    def configure(self, configs: Mapping[str, Any]) -> None:
        pass

    def test(self, record: ConnectRecord) -> bool:
        raise DataError("no predicate for this")

    def config(self) -> ConfigDef:
        return self.CONFIG

    def close(self) -> None:
        pass


def transforms(handling: ErrorHandling, predicate: str, **more: str) -> Transforms:
    """One that hoists, where the predicate says so."""
    configs = {
        "name": "c",
        "connector.class": "FileStreamSource",
        "transforms": "hoist",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.hoist.predicate": "when",
        "predicates": "when",
        "predicates.when.type": predicate,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    plugins = load_plugins()
    settings = ConnectorSettings.of(configs, FileStreamSourceConnector, plugins)
    return Transforms.of(settings, plugins, handling)


def handling(*, tolerates_all: bool) -> ErrorHandling:
    return ErrorHandling(ErrorSettings(tolerates_all), [], threading.Event())


@pytest.mark.parametrize(("negate", "is_hoisted"), [("false", True), ("true", False)])
def test_a_predicate_says_for_which_records_a_transform_is(negate: str, is_hoisted: bool) -> None:
    named = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
    found = transforms(
        handling(tolerates_all=False), named, predicates_when_pattern="t", transforms_hoist_negate=negate
    ).apply(RECORD, RECORD)
    assert found is not None
    assert (found.value != "v") is is_hoisted


def test_what_a_predicate_raises_is_a_failure_of_the_record() -> None:
    errors = handling(tolerates_all=True)
    assert transforms(errors, f"{__name__}.Raising").apply(RECORD, RECORD) is None
    assert errors.skipped == 1
    with pytest.raises(ConnectError, match="Tolerance exceeded in error handler"):
        transforms(handling(tolerates_all=False), f"{__name__}.Raising").apply(RECORD, RECORD)
