"""Lines that pk-console-producer and Kafka's ConsoleProducer make the same records of, or refuse alike."""

import subprocess
import sys

import pytest

from tests.interop.conftest import SYSTEMS, JavaTool, System
from tests.talk import talking

PRODUCER = "kafka.tools.ConsoleProducer"
PROGRAM = "from pkafka.cli.console_producer import main; main()"
KEYS = "parse.key=true"
HEADERS = "parse.headers=true"


@pytest.fixture
def system(request: pytest.FixtureRequest) -> System:
    """Any of the two: it is the producers that differ."""
    broker: System = request.getfixturevalue(SYSTEMS[-1])
    return broker


@pytest.mark.parametrize(
    ("properties", "lines"),
    [
        ([], "plain\n\nlast without an end"),
        ([KEYS], "k\tv\n\tno key\nk\t\n"),
        ([KEYS], "k\tv\nnokey\nafter\tit\n"),
        ([KEYS, "key.separator=:", "null.marker=NULL"], "k:v:w\nNULL:v\nk:NULL\n"),
        ([KEYS, "ignore.error=true"], "k\tv\nnokey\n"),
        ([HEADERS], "h:1,g:2\tv\nh:\tv\nh:1,,\tv\nh:a:b\tv\n"),
        ([HEADERS], "h\tv\n"),
        ([HEADERS], "no headers\n"),
        ([HEADERS, "ignore.error=true"], "h,g:1\tv\nno headers\n\tv\n"),
        ([HEADERS, KEYS, "null.marker=-"], "h:-,g:1\tk\tv\n-\t-\t-\n"),
        (
            [HEADERS, KEYS, "headers.delimiter=|", "headers.separator=;", "headers.key.separator=="],
            "h=1;g=2|k\tv\n",
        ),
        ([HEADERS, "null.marker=-"], "-:1\tv\n"),
        ([HEADERS, KEYS, "ignore.error=true"], "h:1\tno key\n"),
        (["headers.separator=:"], "v\n"),
        ([], "a\rb\r\nc\r\r\nd\x0b\x85e\u2028f\r"),
        ([KEYS, "key.separator="], "k\tv\n\n"),
        ([HEADERS, "headers.delimiter="], "h:1\tv\n"),
        ([HEADERS, "headers.delimiter=", "ignore.error=true"], "h:1\tv\n"),
        ([HEADERS, "headers.separator=", "ignore.error=true"], "h:1\tv\n"),
        ([HEADERS, "headers.separator="], "h:1\tv\n"),
        ([HEADERS, "headers.key.separator="], "h:1,g\tv\n"),
        ([HEADERS, "headers.key.separator=", "null.marker="], "h:1\tv\n"),
        ([HEADERS], ",\tv\n,,h:1\tv\n"),
        (["headers.separator=", "headers.key.separator="], "v\n"),
        (["parse.key= TRUE\xa0"], "k\tv\n"),
        (["parse.key= TRUE "], "k\tv\n"),
        (["null.marker=,"], "v\n"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_lines(system: System, java_tool: JavaTool, topic: str, properties: list[str], lines: str) -> None:
    flags = [word for each in properties for word in ("--property", each)]
    server = ["--bootstrap-server", system.bootstrap, "--sync", *flags, "--topic"]
    with talking(system.bootstrap) as talk:
        for name in ("ours", "theirs"):
            talk.create(f"{topic}-{name}")
        theirs = java_tool(PRODUCER, *server, f"{topic}-theirs", stdin=lines)
        command = [sys.executable, "-c", PROGRAM, *server, f"{topic}-ours"]
        ours = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, check=False)
        made, expected = ([each[2:] for each in talk.read(f"{topic}-{name}")] for name in ("ours", "theirs"))
    assert made == expected
    assert (ours.returncode != 0) == (theirs.returncode != 0), (ours, theirs)
    if theirs.returncode:
        (reason,) = [each for each in theirs.stderr.splitlines() if "KafkaException: " in each][:1]
        said = reason.partition("KafkaException: ")[2]
        assert said in ours.stderr or "may not be equal" in ours.stderr, (said, ours.stderr)
