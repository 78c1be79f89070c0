"""Source offsets are those that MirrorMaker 2's source task stores."""

from pathlib import Path

from pkafka.connect.storage.java_map import load_map
from pkafka.model import TopicPartition
from pkafka.tools.mirroring.back_fill.offsets import Keeper, store_in_file


def test_offsets_are_stored_beside_those_of_other_connectors(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    store_in_file(Keeper("other", "A"), {TopicPartition("u", 0): 3}, path)
    store_in_file(Keeper("MirrorSourceConnector", "A"), {TopicPartition("t", 2): 41}, path)
    assert load_map(path.read_bytes()) == {
        b'["other",{"cluster":"A","partition":0,"topic":"u"}]': b'{"offset":3}',
        b'["MirrorSourceConnector",{"cluster":"A","partition":2,"topic":"t"}]': b'{"offset":41}',
    }
