import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from pkafka.records.checksum import crc32c, crcmod_checksum


def test_the_check_value_of_the_algorithm() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(max_size=300), st.integers(0, 300))
def test_the_fallback_agrees_whole_and_in_parts(data: bytes, cut: int) -> None:
    fallback = crcmod_checksum()
    view = memoryview(data)
    assert crc32c(view) == fallback(view, 0) == crc32c(view[cut:], crc32c(view[:cut]))
    assert fallback(view[cut:], fallback(view[:cut], 0)) == crc32c(data)


def test_the_package_of_the_checksum_is_not_paid_for() -> None:
    program = """
import sys
from pkafka.records.checksum import crc32c
assert not {"argparse", "importlib.metadata"} & set(sys.modules), "slow to import"
import crc32c as package
assert package.crc32c(b"123456789") == crc32c(b"123456789") == 0xE3069283
assert package.crc32c is crc32c
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
