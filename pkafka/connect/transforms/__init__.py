"""Transforms of single records, and the predicates that say for which records a transform is."""

from typing import Final

from pkafka.connect.transforms.cast import CastKey, CastValue
from pkafka.connect.transforms.fields import (
    ExtractFieldKey,
    ExtractFieldValue,
    HoistFieldKey,
    HoistFieldValue,
    InsertFieldKey,
    InsertFieldValue,
    ValueToKey,
)
from pkafka.connect.transforms.headers import DropHeaders, HeaderFromKey, HeaderFromValue, InsertHeader
from pkafka.connect.transforms.interface import Predicate, Transformation
from pkafka.connect.transforms.mask_field import MaskFieldKey, MaskFieldValue
from pkafka.connect.transforms.routing import (
    Filter,
    HasHeaderKey,
    RecordIsTombstone,
    RegexRouter,
    TimestampRouter,
    TopicNameMatches,
)
from pkafka.connect.transforms.shape import (
    FlattenKey,
    FlattenValue,
    ReplaceFieldKey,
    ReplaceFieldValue,
    SetSchemaMetadataKey,
    SetSchemaMetadataValue,
)
from pkafka.connect.transforms.timestamp_converter import TimestampConverterKey, TimestampConverterValue

TRANSFORMS: Final[tuple[type[Transformation], ...]] = (
    CastKey,
    CastValue,
    DropHeaders,
    ExtractFieldKey,
    ExtractFieldValue,
    Filter,
    FlattenKey,
    FlattenValue,
    HeaderFromKey,
    HeaderFromValue,
    HoistFieldKey,
    HoistFieldValue,
    InsertFieldKey,
    InsertFieldValue,
    InsertHeader,
    MaskFieldKey,
    MaskFieldValue,
    RegexRouter,
    ReplaceFieldKey,
    ReplaceFieldValue,
    SetSchemaMetadataKey,
    SetSchemaMetadataValue,
    TimestampConverterKey,
    TimestampConverterValue,
    TimestampRouter,
    ValueToKey,
)
"""All transforms that Apache Kafka Connect has."""

PREDICATES: Final[tuple[type[Predicate], ...]] = (HasHeaderKey, RecordIsTombstone, TopicNameMatches)
"""All its predicates."""

__all__ = ["PREDICATES", "TRANSFORMS", "Predicate", "Transformation"]
