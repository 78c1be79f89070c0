"""How a Python was built. An optimised one takes up to a quarter less time, so what is measured says which it was.

Also a program, of any Python: it ends with 0 where that one was built with optimisation. Nothing of the project is
imported.
"""

import platform
import sys
import sysconfig
from collections.abc import Mapping
from typing import Final

_FLAG: Final = "--enable-optimizations"
_OF_DISTRIBUTIONS: Final = "/usr"


def is_optimised(prefix: str, variables: Mapping[str, object]) -> bool:
    """Whether a Python was built with the profile of a run.

    Distributions build theirs so by rules of their own, which the flags of the build do not show.

    Args:
        prefix: where it is installed.
        variables: those of its build, as ``sysconfig`` has them.
    """
    return prefix == _OF_DISTRIBUTIONS or _FLAG in str(variables.get("CONFIG_ARGS"))


def this_python() -> str:
    """The version of this Python, where it comes from, and how it was built."""
    build = "with" if is_optimised(sys.base_prefix, sysconfig.get_config_vars()) else "without"
    return f"Python {platform.python_version()} of {sys.base_prefix}, built {build} optimisation"


if __name__ == "__main__":
    sys.exit(not is_optimised(sys.base_prefix, sysconfig.get_config_vars()))
