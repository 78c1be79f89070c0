"""How often Python looks for cyclic garbage in a worker.

Each record is a handful of objects, and none of them is in a cycle: they go with their last reference. Python counts
them nevertheless, and looks through the youngest 700 objects again and again, which took a third of a source's time.
"""

import gc
from typing import Final

_YOUNG: Final = 10_000
"""So many objects more than at the last collection make for the next one: those of a poll of records."""


def collect_seldom() -> None:
    """Collect young objects when there are more of them, in this process from now on."""
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
