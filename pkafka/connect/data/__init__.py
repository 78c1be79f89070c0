"""The data of Connect: schemas, structs, logical types, headers and records.

How Java's classes are had in Python:

======================  =================================================================================
``Byte`` to ``Long``    ``int``; without a schema, ``int`` is a ``Long``, and :class:`Int8`, :class:`Int16`
                        and :class:`Int32` are the narrower ones
``Float``, ``Double``   ``float``; without a schema, ``float`` is a ``Double`` and :class:`Float32` the other
``Boolean``, ``String``  ``bool``, ``str``
``byte[]``              ``bytes``; ``bytearray`` and ``memoryview`` are taken for a ``ByteBuffer``
``List``, ``Map``       ``list`` (``tuple``), ``dict``
``BigDecimal``          ``decimal.Decimal``
``java.util.Date``      ``datetime`` with a time zone, for all three logical types of time
``Struct``              :class:`Struct`
======================  =================================================================================
"""

from pkafka.connect.data.headers import Header, Headers
from pkafka.connect.data.java_classes import Float32, Int8, Int16, Int32
from pkafka.connect.data.logical import Date, Decimal, Time, Timestamp
from pkafka.connect.data.records import ConnectRecord, SinkRecord, SourceRecord
from pkafka.connect.data.schema import Field, Schema, SchemaAndValue, SchemaBuilder
from pkafka.connect.data.struct import Struct
from pkafka.connect.data.types import Type
from pkafka.connect.data.validation import validate_value

__all__ = [
    "ConnectRecord",
    "Date",
    "Decimal",
    "Field",
    "Float32",
    "Header",
    "Headers",
    "Int8",
    "Int16",
    "Int32",
    "Schema",
    "SchemaAndValue",
    "SchemaBuilder",
    "SinkRecord",
    "SourceRecord",
    "Struct",
    "Time",
    "Timestamp",
    "Type",
    "validate_value",
]
