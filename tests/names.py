"""Names that no other test uses and that are the same in every run.

The name of a group or a transactional id decides to which partition of an internal topic it belongs. With a random
name, a test that shares a broker meets another test's records in one run of fifty; with these it does so in every run
or in none.
"""

import hashlib
import os
import threading
from collections import Counter
from typing import Final

_DRAWN: Final[Counter[str]] = Counter()
_DRAWING: Final = threading.Lock()


def new_name(prefix: str) -> str:
    """Return a name, `prefix` and ten digits, that the running test has not been given before."""
    test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
    with _DRAWING:  # tests draw from several threads at once
        _DRAWN[test] += 1
        number = _DRAWN[test]
    return prefix + hashlib.sha256(f"{test} {number}".encode()).hexdigest()[:10]
