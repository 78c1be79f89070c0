"""CRC-32C (Castagnoli), the checksum of v2 batches, over any buffer without a copy.

The hardware-accelerated ``crc32c`` package does the work at more than 20 GB/s; ``crcmod`` stands in where
no wheel of it exists. CRC-32 of the old formats is zlib's and not here.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


class Checksum(Protocol):
    """Computes the CRC-32C of ``data``, continued from ``crc``."""

    def __call__(self, data: Buffer, crc: int = 0, /) -> int: ...


def crcmod_checksum() -> Checksum:
    """The fallback; also an independent check in tests."""
    import crcmod.predefined

    update = crcmod.predefined.mkPredefinedCrcFun("crc-32c")

    def checksum(data: Buffer, crc: int = 0) -> int:
        # crcmod's C part takes only bytes-like objects with the old one-dimensional layout: a flat view is one.
        result: int = update(bytes(data) if isinstance(data, memoryview) else data, crc)
        return result

    return checksum


def _fastest() -> Checksum:
    found = _compiled_part()
    if found is not None:
        return found
    try:
        from crc32c import crc32c as accelerated
    except ImportError:
        return crcmod_checksum()
    return accelerated


def _compiled_part() -> Checksum | None:
    """The function out of the package's compiled module, if that is where it used to be.

    The package itself imports argparse and reads the metadata of what is installed, which takes longer than anything
    else that a command of ours imports.
    """
    package = PathFinder.find_spec("crc32c")
    name = "crc32c._crc32c"
    spec = None
    if package is not None and package.submodule_search_locations is not None:
        spec = PathFinder.find_spec(name, list(package.submodule_search_locations))
    if spec is None or spec.loader is None or name in sys.modules:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module  # for code that imports the package after all
    found: Checksum | None = getattr(module, "crc32c", None)
    return found


crc32c: Final[Checksum] = _fastest()
"""The CRC-32C of ``data``, continued from ``crc`` (0 when left out), as an unsigned 32-bit integer."""
