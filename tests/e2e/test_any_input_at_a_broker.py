"""As tests/unit/cli/test_any_input.py, where a broker answers: further in, on topics with odd records and a group.

The broker is this module's own: what commands do to it (quotas, settings, topics that go) is nothing for other tests.
"""

from pathlib import Path
from typing import Final

import click
import pytest

from pkafka.clients.admin import Admin
from pkafka.clients.admin.results import NewTopic
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.clients.producer import Producer
from pkafka.model import TopicPartition
from pkafka.testing import Broker
from tests.any_input import LONG_S, check_any_input, check_each_flag
from tests.command_lines import Leaf, leaves

# Ctrl-C, which ends what goes on for ever, leaves sockets open that a process would take along.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(LONG_S),
]


def _talks_to_brokers(leaf: Leaf) -> bool:
    return any(
        "--bootstrap-server" in each.opts for each in leaf.command.params if isinstance(each, click.Option)
    )


LEAVES: Final = [leaf for leaf in leaves() if _talks_to_brokers(leaf)]


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.name)
def test_no_input_ends_a_command_in_a_traceback(leaf: Leaf, broker: Broker, tmp_path: Path) -> None:
    _fill(broker.bootstrap)
    check_any_input(leaf, broker.bootstrap, tmp_path, share=1 / 5)


@pytest.mark.nightly
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.name)
def test_no_value_of_a_flag_ends_a_command_in_a_traceback(leaf: Leaf, broker: Broker, tmp_path: Path) -> None:
    _fill(broker.bootstrap)
    check_each_flag(leaf, broker.bootstrap, tmp_path)


def _fill(servers: str) -> None:
    """Make the topics and the group that lines speak of, or what is left of them whole again."""
    properties = {"bootstrap.servers": servers}
    with Admin(properties) as admin:
        there = {each.name for each in admin.list_topics()}
        admin.create_topics([NewTopic(name, 2, 1) for name in ("plain", "odd", "empty") if name not in there])
        offsets = {
            TopicPartition("plain", 0): OffsetAndMetadata(1),
            TopicPartition("odd", 0): OffsetAndMetadata(0),
        }
        admin.alter_group_offsets("readers", offsets)
    with Producer(properties) as producer:
        for number in range(3):
            producer.send("plain", b"value %d" % number, key=b"key", partition=0)
        for value in (b"\xff\xfe\x00", None, b"", b"[" * 5_000, "é\u2028".encode(), b"x" * 20_000):
            producer.send("odd", value, key=value, partition=0, headers=[("h\u2028", b"\xff"), ("", None)])
        producer.flush()
