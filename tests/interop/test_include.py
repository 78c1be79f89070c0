"""``--include`` of the console consumers: the text is one regular expression of Java's, with all that is in it."""

import subprocess
import sys

import pytest

from pkafka.testing import Broker
from tests.interop.conftest import JavaTool
from tests.talk import talking

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PROGRAM = "from pkafka.cli.console_consumer import main; main()"
ENDINGS = ("cq", "ccq", "cccq", "Dq")


@pytest.fixture
def prefix(pkafka: Broker | None, topic: str) -> str:
    """What topics begin with, each of which has one record that says its ending."""
    assert pkafka is not None
    with talking(pkafka.bootstrap) as talk:
        for ending in ENDINGS:
            talk.create(f"{topic}-{ending}")
            talk.send(f"{topic}-{ending}", ending.encode())
    return topic


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("{}-c{{1,2}}q", {"cq", "ccq"}),
        ("{0}-cq,{0}-ccq", set()),
        (" {}-cq", set()),
        ("'{}-cq'", set()),
        ("{}-(?i)d[a-z&&[^x]]", {"Dq"}),
        ("{}-\\p{{Lower}}{{3}}+|nothing", {"ccq"}),
    ],
)
def test_the_text_is_the_pattern(
    pkafka: Broker, java_tool: JavaTool, prefix: str, pattern: str, expected: set[str]
) -> None:
    count = ["--max-messages", str(len(expected))] if expected else ["--timeout-ms", "2500"]
    args = ["--bootstrap-server", pkafka.bootstrap, "--include", pattern.format(prefix), "--from-beginning"]
    theirs = java_tool(CONSUMER, *args, *count)
    command = [sys.executable, "-c", PROGRAM, *args, *count]
    ours = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ours.returncode, set(ours.stdout.split())) == (0, expected), ours
    assert set(theirs.stdout.split()) == expected, theirs


@pytest.mark.parametrize("pattern", ["a{", "[", "*", "\\y", "a{,2}"])
def test_what_is_no_pattern_is_refused(pkafka: Broker, java_tool: JavaTool, pattern: str) -> None:
    args = ["--bootstrap-server", pkafka.bootstrap, "--include", pattern, "--timeout-ms", "1000"]
    theirs = java_tool(CONSUMER, *args)
    command = [sys.executable, "-c", PROGRAM, *args]
    ours = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (theirs.returncode, ours.returncode) == (1, 2), (theirs, ours)
    assert ours.stderr.startswith(f"pk-console-consumer: --include {pattern}: ")
    assert ours.stderr.count("\n") == 1
