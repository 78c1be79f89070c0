"""The settings that a mirror gives its clients, beside those of kafka-mirror-maker.sh 3.9.1."""

import pytest

from pkafka.tools.mirroring.settings import consumer_settings, producer_settings


def test_a_producer_waits_rather_than_loses() -> None:
    given = producer_settings({"bootstrap.servers": "b:1", "key.serializer": "a.B"})
    assert given == {
        "bootstrap.servers": "b:1",
        "acks": "all",
        "retries": 2**31 - 1,
        "delivery.timeout.ms": 2**31 - 1,
        "max.block.ms": 2**31 - 1,
    }


def test_a_producer_that_is_not_idempotent_has_one_request_in_flight() -> None:
    given = producer_settings({"enable.idempotence": "false"})
    assert given["max.in.flight.requests.per.connection"] == 1


def test_settings_that_allow_a_loss_count_and_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    assert producer_settings({"acks": "1"})["acks"] == "1"
    assert consumer_settings({"enable.auto.commit": "true"}, 0)["enable.auto.commit"] == "true"
    assert [each.getMessage().partition(" -")[0] for each in caplog.records] == [
        "Property acks is overridden to 1",
        "Property enable.auto.commit is overridden to true",
    ]


def test_a_consumer_commits_nothing_by_itself_and_has_the_number_of_its_stream() -> None:
    given = consumer_settings({"group.id": "g", "value.deserializer": "a.B"}, 2)
    assert given == {"group.id": "g", "enable.auto.commit": "false", "client.id": "g-2"}
