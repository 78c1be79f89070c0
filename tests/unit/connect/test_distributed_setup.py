"""What is in memory when the process is forked that makes those of tasks."""

import platform
import re
import subprocess
import sys

import pytest

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


_HEAPS = """
import sys, threading
from pkafka.connect.memory import have_one_heap

if sys.argv[1] == "one":
    have_one_heap()
held, done = threading.Barrier(9), threading.Event()

def ask():
    memory = [bytearray(100_000) for _ in range(10)]
    held.wait()
    done.wait()

for _ in range(8):
    threading.Thread(target=ask, daemon=True).start()
held.wait()
print(open("/proc/self/maps").read())
"""
# A heap of glibc's for threads is at a multiple of 64 MB, has what is in use, and behind it what is reserved.
_HEAP = re.compile(r"^([0-9a-f]*[048c]000000)-[0-9a-f]+ rw-p 00000000 00:00 0 *$", re.MULTILINE)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has no such heaps")
def test_threads_share_one_heap() -> None:
    def heaps(how: str) -> int:
        command = [sys.executable, "-c", _HEAPS, how]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return len(_HEAP.findall(done.stdout))

    assert (heaps("one"), heaps("many") > 1) == (0, True)
