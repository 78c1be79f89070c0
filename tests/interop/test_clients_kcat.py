"""kcat, on Apache Kafka and on pkafka."""

import json
import shutil
import subprocess

import pytest

from tests.interop.conftest import System

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat: sudo apt-get install -y kcat")


def kcat(system: System, *arguments: str, stdin: str = "") -> str:
    # By itself it gives up where metadata or an offset take more than five seconds.
    command = ["kcat", "-b", system.bootstrap, "-m", "60", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=100, check=True
    ).stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_lines_there_and_back(system: System, topic: str, codec: str) -> None:
    lines = "".join(f"key{number}:value{number}\n" for number in range(100))
    kcat(system, "-P", "-t", topic, "-p", "0", "-K:", "-z", codec, "-H", "codec=" + codec, stdin=lines)
    output = kcat(system, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%o %k:%s %h\n")
    assert output == "".join(f"{number} key{number}:value{number} codec={codec}\n" for number in range(100))
    assert kcat(system, "-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q") == "value98\nvalue99\n"


def test_metadata_and_offsets(system: System, topic: str) -> None:
    kcat(system, "-P", "-t", topic, "-p", "0", stdin="a\nb\n")
    metadata = json.loads(kcat(system, "-L", "-J", "-t", topic))
    assert [broker["id"] for broker in metadata["brokers"]] == [0]
    assert metadata["brokers"][0]["name"] == system.bootstrap
    (described,) = metadata["topics"]
    assert described["partitions"] == [
        {"partition": 0, "leader": 0, "replicas": [{"id": 0}], "isrs": [{"id": 0}]}
    ]
    assert kcat(system, "-Q", "-t", f"{topic}:0:-1").strip() == f"{topic} [0] offset 2"
