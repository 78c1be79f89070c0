"""The wire: messages declared once as data, codecs compiled from them, headers, framing. No socket, no clock."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
"""What decoders read from; a memoryview must be of bytes."""
