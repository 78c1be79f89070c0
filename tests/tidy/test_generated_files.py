"""Files made from the code are what the code would make now."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_make_regenerate_would_change_nothing() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "regenerate.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
