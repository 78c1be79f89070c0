"""The Java clients of Kafka 3.9 and 4.1, on Apache Kafka and on pkafka; see java/Roundtrip.java for what they do."""

import pytest

from tests.interop.conftest import JavaTool, System

RECORDS_PER_CODEC = 500

SEEN = f"""\
produced {RECORDS_PER_CODEC} none
produced {RECORDS_PER_CODEC} gzip
produced {RECORDS_PER_CODEC} snappy
produced {RECORDS_PER_CODEC} lz4
produced {RECORDS_PER_CODEC} zstd
consumed {5 * RECORDS_PER_CODEC}
by time: offset 123 timestamp 1700000000123 epoch Optional[0]
by time in the future: offset -1 timestamp -1 epoch Optional.empty
earliest: offset 0 timestamp -1 epoch Optional[0]
latest: offset 2500 timestamp -1 epoch Optional[0]
max timestamp: offset 2499 timestamp 1700000002499 epoch Optional[0]
first record at its time: 42
end offset: 2500
partitions: 1
"""


@pytest.mark.parametrize("clients", ["3.9", "4.1"])
def test_every_codec_there_and_back(
    java_tool: JavaTool, java_tool_4: JavaTool, clients: str, system: System, topic: str
) -> None:
    tool = java_tool if clients == "3.9" else java_tool_4
    done = tool("Roundtrip", system.bootstrap, topic, RECORDS_PER_CODEC)
    assert (done.stdout, done.returncode) == (SEEN, 0), done.stderr
