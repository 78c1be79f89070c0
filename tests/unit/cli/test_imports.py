"""What the quick paths import: a tool that lists topics must not pay for what it does not use."""

import subprocess
import sys

import pytest

from tests.fakes.broker import FakeBroker

HEAVY = (
    "asyncio",
    "rich",
    "kazoo",
    "msgpack",
    "prometheus_client",
    "pkafka.server",
    "pkafka.records",
    "logging",
    "stringprep",  # half of encodings.idna
)
WITHOUT_CLUSTER = (*HEAVY, "pkafka.clients", "pkafka.protocol", "socket")
PROGRAM = """
import sys
from pkafka.cli.topics import main
status = main.run(sys.argv[1:])
heavy = [name for name in {heavy!r} if name in sys.modules]
assert not heavy, heavy
sys.exit(status)
"""


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["--list"]], ids=lambda each: each[0])
def test_quick_paths_import_little(args: list[str]) -> None:
    with FakeBroker({"t": 1}) as broker:
        heavy = HEAVY if args == ["--list"] else WITHOUT_CLUSTER
        if args == ["--list"]:
            args = [*args, "--bootstrap-server", broker.bootstrap]
        command = [sys.executable, "-c", PROGRAM.format(heavy=heavy), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["pkafka.testing", "pkafka.tools.local_broker"])
def test_the_pytest_plugin_costs_other_projects_nothing(module: str) -> None:
    program = f"""
import sys, pytest, subprocess, tempfile, contextlib, select, shutil
before = set(sys.modules)
import {module}
assert {{name for name in set(sys.modules) - before}} <= {{
    "pkafka", "pkafka.tools", "pkafka.tools.local_broker", "pkafka.testing"
}}, set(sys.modules) - before
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
