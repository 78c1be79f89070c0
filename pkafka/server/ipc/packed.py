"""Frames whose header is packed numbers instead of msgpack: for what workers ask of each other all the time.

Such a frame is ``u32 header bytes | u32 blob bytes | header | blob`` as any other, but for a mark in the first number.
Its header is ``u8 operation | u64 call id | what the operation packs``; :mod:`pkafka.server.ipc.peer` sends and reads
it. What an operation packs is the business of its handler. A packed call is answered by a packed frame when the answer
is bytes, and by an ordinary one else, or when it fails. Packed frames carry no descriptors.
"""

from struct import Struct
from typing import Final

MARK: Final = 0x8000_0000
"""In the first number of a packed frame."""
START: Final = Struct(">IIBQ")
"""How a packed frame begins: bytes of the header with :data:`MARK`, bytes of the blob, operation, call id."""
HEADER: Final = Struct(">BQ")
"""How the header begins."""
ANSWER: Final = 0
"""In the place of the operation: this frame answers the call of that id."""
OPERATIONS: Final = ("", "produce_whole")
"""By the numbers that stand for them; all processes of a broker are of one version of pkafka."""
NUMBER_OF: Final = {name: number for number, name in enumerate(OPERATIONS)}
