"""Converters: bytes of Kafka's records to values of Connect, and back."""

from pkafka.connect.converters.interface import Converter, HeaderConverter
from pkafka.connect.converters.json_converter import JsonConverter
from pkafka.connect.converters.plain import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
    StringConverter,
)
from pkafka.connect.converters.simple_header import SimpleHeaderConverter

__all__ = [
    "BooleanConverter",
    "ByteArrayConverter",
    "Converter",
    "DoubleConverter",
    "FloatConverter",
    "HeaderConverter",
    "IntegerConverter",
    "JsonConverter",
    "LongConverter",
    "ShortConverter",
    "SimpleHeaderConverter",
    "StringConverter",
]
