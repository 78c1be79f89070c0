"""Messages in JSON as Kafka's request log has them (tests/interop/test_broker_logs.py compares them with Kafka's)."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pkafka.protocol.json_form import json_form
from pkafka.protocol.messages import fetch, join_group, metadata
from pkafka.protocol.schema import Message
from tests.unit.protocol.strategies import every_message_version, instances_of


def test_names_ids_bytes_and_nulls() -> None:
    topic = metadata.MetadataRequestTopic(topic_id=b"\xff" * 16, name=None)
    assert json_form(metadata.MetadataRequest(topics=[topic]), 12) == {
        "topics": [{"topicId": "_____________________w", "name": None}],
        "allowAutoTopicCreation": True,
        "includeTopicAuthorizedOperations": False,
    }
    assert json_form(metadata.MetadataRequest(topics=None), 1) == {"topics": None}
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"\xfb\xff")
    assert json_form(protocol, 9) == {"name": "range", "metadata": "+/8="}


def test_tagged_fields_appear_only_where_they_say_something() -> None:
    request = fetch.FetchRequest(topics=[], cluster_id=None)
    assert not {"clusterId", "replicaState"} & json_form(request, 17).keys()
    request.replica_state = fetch.ReplicaState(replica_id=3)
    request.cluster_id = "c"
    assert json_form(request, 17)["clusterId"] == "c"
    assert json_form(request, 17)["replicaState"] == {"replicaId": 3, "replicaEpoch": -1}
    assert "replicaState" not in json_form(request, 12)


def test_record_sets_are_measured() -> None:
    partition = fetch.PartitionData(partition_index=1, records=b"12345")
    form = json_form(partition, 12)
    assert form["recordsSizeInBytes"] == 5
    assert "records" not in form
    partition.records = None
    assert json_form(partition, 12)["records"] is None


@pytest.mark.parametrize(
    ("message", "version"),
    [pytest.param(*each, id=f"{each[0].__name__}-{each[1]}") for each in every_message_version()],
)
@given(data=st.data())
@settings(max_examples=5)
def test_every_message_has_a_form(message: type[Message], version: int, data: st.DataObject) -> None:
    form = json_form(data.draw(instances_of(message, version)), version)
    assert json.loads(json.dumps(form)).keys() == form.keys()
