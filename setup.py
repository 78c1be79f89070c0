"""Builds what of pkafka may be compiled; everything else about the package is in pyproject.toml.

- The inner loops of pkafka.records with Cython, when both Cython and a C compiler are there. Without either of them the
  install goes on and the same source runs as plain Python.
- The hot path (``[tool.pkafka]`` in pyproject.toml) with mypyc, when ``PKAFKA_COMPILE=1`` asks for it. That takes a
  minute, so it is not done unasked; it fails when it cannot be done.

``PKAFKA_PURE=1`` builds neither.
"""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from setuptools import Extension, setup

PURE = os.environ.get("PKAFKA_PURE") == "1"
COMPILE = os.environ.get("PKAFKA_COMPILE") == "1" and not PURE
IS_ASKED_WHAT_IT_NEEDS = sys.argv[1:2] == ["egg_info"]
"""What builds it asks first, and nothing of it is installed yet."""


def loops() -> list[Any]:
    """The optional extension modules of pkafka.records; none without Cython."""
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


def hot_path() -> list[Any]:
    """The modules that mypyc compiles, in one library."""
    from mypyc.build import mypycify

    listed = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["pkafka"]["compiled"]
    sources = [name.replace(".", "/") + ".py" for name in listed]
    # What a build does not have (msgpack, kazoo) is of unknown type to it; whether types are right is for lint to say.
    options = ["--config-file=", "--ignore-missing-imports", *sources]
    modules: list[Any] = mypycify(
        options, opt_level="2", debug_level="0", multi_file=True, group_name="pkafka"
    )
    return modules


setup(
    ext_modules=[] if PURE else [*loops(), *(hot_path() if COMPILE and not IS_ASKED_WHAT_IT_NEEDS else [])],
    setup_requires=["mypy>=2.4"] if COMPILE else [],  # pip puts it into the environment of the build
)
