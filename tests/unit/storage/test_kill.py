"""kill -9 of a process that appends: every acknowledged record is there afterwards, once, in order."""

import subprocess
import sys
from pathlib import Path

from tests.unit.storage.makers import World, append, everything

APPENDER = """
import sys
from pathlib import Path
from tests.unit.storage.makers import World, append
world = World(Path(sys.argv[1]))
log = world.open() if world.directory.exists() else world.create()
while True:
    sequence = log.log_end_offset
    append(log, b"%d" % sequence + b"x" * (sequence % 90), pid=1, epoch=0, sequence=sequence)
    if sequence % 37 == 0:
        log.flush()
    print(sequence, flush=True)
"""
ROOT = Path(__file__).parents[3]


def test_acknowledged_records_survive_every_kill(tmp_path: Path) -> None:
    acknowledged = -1
    for lines in (1, 40, 173):
        with subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as appender:
            assert appender.stdout is not None
            for _ in range(lines):
                acknowledged = int(appender.stdout.readline())
            appender.kill()
            # What it still managed to say before the kill counts too; a line that was cut off does not.
            rest = appender.stdout.read().split("\n")[:-1]
            acknowledged = int(rest[-1]) if rest else acknowledged
    world = World(tmp_path)
    log = world.open()
    end = log.set_high_watermark(2**60)
    # A record whose answer was on its way may be there too.
    assert acknowledged + 1 <= end <= acknowledged + 2
    assert everything(log) == [(offset, b"%d" % offset + b"x" * (offset % 90)) for offset in range(end)]
    last = b"%d" % (end - 1) + b"x" * ((end - 1) % 90)
    assert append(log, last, pid=1, epoch=0, sequence=end - 1).duplicate
