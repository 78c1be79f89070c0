"""Configurations of tasks as they go into the configuration topic."""

from pkafka.connect.distributed.task_configs import raw_configs
from pkafka.connect.storage.config_state import ClusterConfig


def test_secrets_stay_with_their_providers() -> None:
    connector = {"password": "${file:/secrets:db}", "url": "jdbc:${env:HOST}/x", "table": "t"}
    configs = ClusterConfig(connector_configs={"c": connector})
    given = [{"password": "hunter2", "url": "jdbc:db/x", "table": "t", "number": "0"}]
    assert raw_configs(configs, "c", given) == [{**connector, "number": "0"}]


def test_a_connector_that_is_gone_has_no_variables() -> None:
    assert raw_configs(ClusterConfig(), "c", [{"a": "b"}]) == [{"a": "b"}]
