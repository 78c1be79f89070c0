"""What is in memory when the process is forked that makes those of tasks."""

import subprocess
import sys

_PROGRAM = """
import sys
from pkafka.connect.distributed_setup import Setup
from tests.connect_workers import cluster_settings

settings = {**cluster_settings("g"), "bootstrap.servers": "a:1", "pkafka.connect.hosts": "0"}
settings |= dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter")
assert Setup.of(settings).maker is None
found = [name for name in ("asyncio", "uvicorn", "starlette", "pkafka.connect.rest.server") if name in sys.modules]
assert not found, found
"""


def test_processes_of_tasks_are_forked_before_the_rest_api_is_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
