"""Builds the inner loops of pkafka.records with Cython, when both Cython and a C compiler are there.

Everything else about the package is in pyproject.toml. Without either of them the install goes on and the same
source runs as plain Python. ``PKAFKA_PURE=1`` skips the attempt.
"""

import os
import sys
from typing import Any

from setuptools import Extension, setup


def extensions() -> list[Any]:
    """The optional extension modules; none without Cython."""
    if os.environ.get("PKAFKA_PURE") == "1":
        return []
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError
    except ImportError:
        return []
    loops = [
        Extension(
            f"pkafka.records.{name}",
            [f"pkafka/records/{name}.py"],
            depends=[f"pkafka/records/{name}.pxd"],  # so that it goes into the source distribution
            extra_compile_args=["-O3", "-fwrapv"],  # timestamps wrap around, as in Java
        )
        for name in ("_loops", "_keys", "_writing")
    ]
    # The types are in the .pxd files. Indices stay checked: an IndexError is how the loops learn that data ends.
    directives = {"language_level": 3, "annotation_typing": False, "wraparound": False}
    try:
        modules: list[Any] = cythonize(loops, compiler_directives=directives, quiet=True)
    except CompileError as error:
        print(f"pkafka: the loops stay plain Python: {error}", file=sys.stderr)  # noqa: T201 - a build script
        return []
    for module in modules:
        module.optional = True  # a missing or failing compiler is a warning (cythonize drops the argument)
    return modules


setup(ext_modules=extensions())
