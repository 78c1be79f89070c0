"""The options of the data source ``pkafka``: those of Spark's own Kafka source, with its defaults and refusals. Pure.

Names of options are case-insensitive; ``kafka.`` in front of a key makes it one of the client's. What Spark refuses is
refused in its words, so that a query that was written for the one is understood by the other.
"""

import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from pkafka.errors import PkafkaError
from pkafka.java.numbers import parse_int, parse_long
from pkafka.java.pattern import PatternError, compile_pattern
from pkafka.java.text import trim
from pkafka.model import Millis, Offset, TopicPartition
from pkafka.pipeline.topics.exactly_once import Transactions, TransactionScope
from pkafka.pipeline.topics.ranges import names

LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2

_KAFKA: Final = "kafka."
_STRATEGIES: Final = ("subscribe", "subscribepattern", "assign")
# Option, and what Spark says why a client's key cannot be given.
_READER_KEYS: Final[Mapping[str, str]] = {
    "auto.offset.reset": (
        "is not supported. Instead set the source option 'startingoffsets' to 'earliest' or 'latest' to specify where "
        "to start. Structured Streaming manages which offsets are consumed internally, rather than relying on the "
        "kafkaConsumer to do it."
    ),
    "key.deserializer": (
        "is not supported as keys are deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame operations "
        "to explicitly deserialize the keys."
    ),
    "value.deserializer": (
        "is not supported as values are deserialized as byte arrays with ByteArrayDeserializer. Use DataFrame "
        "operations to explicitly deserialize the values."
    ),
    "enable.auto.commit": "is not supported",
    "interceptor.classes": "is not supported",
}
_WRITER_KEYS: Final[Mapping[str, str]] = {
    "key.serializer": "is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": "is not supported as value are serialized with ByteArraySerializer.",
    # Each task needs one of its own.
    "transactional.id": "is not supported: say delivery=exactly-once, and transactionalIdPrefix for ids of your own",
}
_AT_LEAST_ONCE: Final = "at-least-once"
_EXACTLY_ONCE: Final = "exactly-once"
_TRANSACTION_OPTIONS: Final = ("transactionalIdPrefix", "transactionScope", "batchId")
# What makes a reader of a range of offsets; the user cannot choose otherwise.
_READER_SETTINGS: Final[Mapping[str, object]] = {
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
}
_UNITS_MS: Final[Mapping[str, float]] = {
    "": 1, "us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip
_SPAN: Final = re.compile(r"(-?[0-9]+)([a-z]*)")
_MAX_TRIGGER_DELAY: Final = "15m"
_POLL_TIMEOUT_MS: Final = 120_000  # of spark.network.timeout, which is Spark's default for it
_LOOK_UP_ATTEMPTS: Final = 3
_LOOK_UP_INTERVAL_MS: Final = 1_000


class OptionError(PkafkaError, ValueError):
    """An option has a value that cannot be, or lacks one."""


class Subscribed(NamedTuple):
    """All partitions of these topics (``subscribe``)."""

    topics: tuple[str, ...]


class Matching(NamedTuple):
    """All partitions of the topics whose whole name matches (``subscribePattern``)."""

    pattern: re.Pattern[str]


class Assigned(NamedTuple):
    """These partitions (``assign``)."""

    partitions: frozenset[TopicPartition]


class Bound(Enum):
    """The two ends of a log."""

    EARLIEST = "earliest"
    LATEST = "latest"


class SpecificOffsets(NamedTuple):
    """An offset for every partition; -2 is the earliest, -1 the latest."""

    offsets: Mapping[TopicPartition, Offset]


class PartitionTimes(NamedTuple):
    """For every partition the first record at or after a time, in ms since the epoch."""

    times: Mapping[TopicPartition, Millis]


class OneTime(NamedTuple):
    """Of all partitions the first record at or after a time, in ms since the epoch."""

    time: Millis


Strategy: TypeAlias = Subscribed | Matching | Assigned
Limit: TypeAlias = Bound | SpecificOffsets | PartitionTimes | OneTime


class ReadOptions(NamedTuple):
    """What a read was asked for.

    Args:
        strategy: which partitions are read.
        starting, ending: from where to where; a stream has no ending.
        latest_where_no_match: a starting time after the last record means the end of the log, instead of an error.
        fail_on_data_loss: a range that is not there any more fails the query, instead of being left out.
        partitions_min, records_max: see :func:`pkafka.pipeline.topics.ranges.split`.
        offsets_max, offsets_min: of a micro-batch.
        trigger_delay_max_ms: after so long a micro-batch comes that has less than ``offsets_min``.
        poll_timeout_ms: how long a task waits for the next record.
        attempts, attempt_interval_ms: how often offsets are looked up, and the pause between.
        consumer: keys of the consumer.
    """

    strategy: Strategy
    starting: Limit
    ending: Limit
    latest_where_no_match: bool
    fail_on_data_loss: bool
    include_headers: bool
    partitions_min: int | None
    records_max: int | None
    offsets_max: int | None
    offsets_min: int | None
    trigger_delay_max_ms: Millis
    poll_timeout_ms: Millis
    attempts: int
    attempt_interval_ms: Millis
    consumer: Mapping[str, object]


class WriteOptions(NamedTuple):
    """What a write was asked for.

    Args:
        topic: of all records, whatever their column ``topic`` says; None where the column decides.
        producer: keys of the producer.
        transactions: how rows are written exactly once; None for at least once.
    """

    topic: str | None
    producer: Mapping[str, object]
    transactions: Transactions | None = None


def batch_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a batch read.

    Raises:
        OptionError: one is wrong, or one is missing; in the words of Spark's own source.
    """
    options = _lowered(given)
    found = _read_options(options, default=Bound.EARLIEST)
    _refuse_end(found.starting, LATEST_OFFSET, "starting offset", "startingOffsets for {}")
    _refuse_end(found.ending, EARLIEST_OFFSET, "ending offset", "ending offset for {}")
    _refuse_backwards(found.starting, found.ending)
    return found


def stream_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a streaming read.

    Raises:
        OptionError: as :func:`batch_options`.
    """
    options = _lowered(given)
    for option, word in (
        ("endingoffsets", "ending offset"),
        ("endingoffsetsbytimestamp", "ending timestamp"),
        ("endingtimestamp", "ending timestamp"),
    ):
        if option in options:
            raise OptionError(f"{word} not valid in streaming queries")
    return _read_options(options, default=Bound.LATEST)


def write_options(given: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
    """The options of a write.

    Raises:
        OptionError: a client's key cannot be given, no broker is named, or what is said about transactions cannot be.
    """
    options = _lowered(given)
    _refuse_keys(options, _WRITER_KEYS)
    if "kafka.bootstrap.servers" not in options:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
    topic = options.get("topic")
    transactions = _transactions(options, is_stream=is_stream)
    return WriteOptions(None if topic is None else topic.strip(), _client_keys(options), transactions)


def _transactions(options: dict[str, str], *, is_stream: bool) -> Transactions | None:
    delivery = options.get("delivery", _AT_LEAST_ONCE).strip().lower()
    if delivery not in (_AT_LEAST_ONCE, _EXACTLY_ONCE):
        raise OptionError(f"delivery must be {_AT_LEAST_ONCE} or {_EXACTLY_ONCE}, got {delivery}")
    if delivery == _AT_LEAST_ONCE:
        for option in _TRANSACTION_OPTIONS:
            if option.lower() in options:
                raise OptionError(f"{option} needs delivery={_EXACTLY_ONCE}")
        return None
    prefix = options.get("transactionalidprefix")
    if prefix is not None and not prefix.strip():
        raise OptionError("transactionalIdPrefix is empty")
    scope = options.get("transactionscope", TransactionScope.TASK.value).strip().lower()
    if scope not in {each.value for each in TransactionScope}:
        raise OptionError(f"transactionScope must be task or batch, got {scope}")
    batch_id = _number(options, "batchid")
    if batch_id is not None and is_stream:
        raise OptionError("batchId not valid in streaming queries: Spark counts their batches")
    if batch_id is not None and (batch_id < 0 or prefix is None):
        raise OptionError("batchId must not be negative, and needs transactionalIdPrefix")
    return Transactions(None if prefix is None else prefix.strip(), TransactionScope(scope), batch_id)


def includes_headers(given: Mapping[str, str]) -> bool:
    """Whether the option ``includeHeaders`` asks for the column ``headers``."""
    return _flag(_lowered(given), "includeheaders", default=False)


def _lowered(given: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in given.items()}


def _read_options(options: dict[str, str], *, default: Bound) -> ReadOptions:
    strategy = _strategy(options)
    partitions_min = _positive(options, "minpartitions", "minPartitions")
    records_max = _positive(options, "maxrecordsperpartition", "maxrecordsperpartition")
    _refuse_keys(options, _READER_KEYS)
    if "kafka.bootstrap.servers" not in options:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    offsets_min = _number(options, "minoffsetspertrigger")
    offsets_max = _number(options, "maxoffsetspertrigger")
    if offsets_min is not None and offsets_max is not None and offsets_min > offsets_max:
        raise OptionError(
            f"The value of minOffsetPerTrigger({offsets_min}) is higher than the maxOffsetsPerTrigger({offsets_max})."
        )
    where_no_match = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if where_no_match not in ("error", "latest"):
        raise OptionError(f"startingOffsetsByTimestampStrategy must be error or latest, got {where_no_match}")
    return ReadOptions(
        strategy=strategy,
        starting=_limit(options, "starting", default),
        ending=_limit(options, "ending", Bound.LATEST),
        latest_where_no_match=where_no_match == "latest",
        fail_on_data_loss=_flag(options, "failondataloss", default=True),
        include_headers=_flag(options, "includeheaders", default=False),
        partitions_min=partitions_min,
        records_max=records_max,
        offsets_max=offsets_max,
        offsets_min=offsets_min,
        trigger_delay_max_ms=_span_ms("maxTriggerDelay", options.get("maxtriggerdelay", _MAX_TRIGGER_DELAY)),
        poll_timeout_ms=_number(options, "kafkaconsumer.polltimeoutms") or _POLL_TIMEOUT_MS,
        attempts=_positive(options, "fetchoffset.numretries", "fetchOffset.numRetries") or _LOOK_UP_ATTEMPTS,
        attempt_interval_ms=_number(options, "fetchoffset.retryintervalms") or _LOOK_UP_INTERVAL_MS,
        consumer={**_client_keys(options), **_group(options), **_READER_SETTINGS},
    )


def _strategy(options: dict[str, str]) -> Strategy:
    given = [each for each in _STRATEGIES if each in options]
    known = f"specified for Kafka source: {', '.join(_STRATEGIES)}. See the docs for more details."
    if not given:
        raise OptionError(f"One of the following options must be {known}")
    if len(given) > 1:
        raise OptionError(f"Only one of the following options can be {known}")
    value = options[given[0]]
    if given[0] == "assign":
        if not value.strip().startswith("{"):
            raise OptionError(
                f"No topicpartitions to assign as specified value for option 'assign' is '{value}'"
            )
        return Assigned(_partitions(value))
    if given[0] == "subscribe":
        topics = tuple(dict.fromkeys(name for each in value.split(",") if (name := each.strip())))
        if not topics:
            raise OptionError(
                f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'"
            )
        return Subscribed(topics)
    if not value.strip():
        raise OptionError(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
        )
    try:
        return Matching(compile_pattern(trim(value)))
    except PatternError as error:
        raise OptionError(f"subscribePattern is no regular expression: {error}: {value}") from error


def _limit(options: dict[str, str], side: str, default: Bound) -> Limit:
    """Where a read starts or ends; a time for all comes before times per partition, and those before offsets."""
    time = options.get(f"{side}timestamp")
    if time is not None:
        try:
            return OneTime(parse_long(trim(time)))
        except ValueError:
            raise OptionError(f"Expected a single long value, got {time.strip()}") from None
    times = options.get(f"{side}offsetsbytimestamp")
    if times is not None:
        example = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
        return PartitionTimes(_numbers(times.strip(), example))
    offsets = options.get(f"{side}offsets")
    if offsets is None:
        return default
    if offsets.strip().lower() in ("earliest", "latest"):
        return Bound(offsets.strip().lower())
    return SpecificOffsets(_numbers(offsets.strip(), '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'))


def _numbers(text: str, example: str) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, parse_int(partition)): _whole(number)
            for topic, partitions in json.loads(text).items()
            for partition, number in partitions.items()
        }
    except (ValueError, AttributeError, RecursionError):
        raise OptionError(f"Expected e.g. {example}, got {text}") from None


def _partitions(text: str) -> frozenset[TopicPartition]:
    try:
        return frozenset(
            TopicPartition(topic, _whole(partition))
            for topic, partitions in json.loads(text).items()
            for partition in partitions
        )
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise OptionError(f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value} is no whole number")
    return value


def _refuse_end(limit: Limit, offset: Offset, of_all: str, of_one: str) -> None:
    """A batch neither starts at the end of a log nor ends at its start."""
    bound = {LATEST_OFFSET: Bound.LATEST, EARLIEST_OFFSET: Bound.EARLIEST}[offset]
    why = f"can't be {bound.value} for batch queries on Kafka"
    if limit is bound:
        raise OptionError(f"{of_all} {why}")
    if isinstance(limit, SpecificOffsets):
        for partition, given in limit.offsets.items():
            if given == offset:
                raise OptionError(f"{of_one.format(partition)} {why}")


def _refuse_backwards(starting: Limit, ending: Limit) -> None:
    """Both limits name partitions: the same ones, and no start lies behind its end."""
    if isinstance(starting, SpecificOffsets) and isinstance(ending, SpecificOffsets):
        starts, ends, word = starting.offsets, ending.offsets, "offset"
    elif isinstance(starting, PartitionTimes) and isinstance(ending, PartitionTimes):
        starts, ends, word = starting.times, ending.times, "timestamp"
    else:
        return
    if starts.keys() != ends.keys():
        raise OptionError(
            f"different topic partitions for starting offsets [{names(starts)}] and ending offsets [{names(ends)}]"
        )
    for partition, start in starts.items():
        end = ends[partition]
        if start > end >= 0:
            raise OptionError(
                f"the specified start {word} {start} is greater than the end {word} {end} for topic "
                f"{partition.topic} partition {partition.partition}"
            )


def _refuse_keys(options: dict[str, str], refused: Mapping[str, str]) -> None:
    for key, why in refused.items():
        if _KAFKA + key in options:
            raise OptionError(f"Kafka option '{key}' {why}")


def _client_keys(options: dict[str, str]) -> dict[str, object]:
    return {name.removeprefix(_KAFKA): value for name, value in options.items() if name.startswith(_KAFKA)}


def _group(options: dict[str, str]) -> dict[str, object]:
    """A group's id only where the user asks for one: nothing is committed, so it serves quotas and permissions."""
    prefix = options.get("groupidprefix")
    if prefix is None or "kafka.group.id" in options:
        return {}
    # Readers neither join nor commit, so they may share an id; Spark's own need one each.
    return {"group.id": f"{prefix}-pkafka"}


def _flag(options: dict[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(f"{name} must be true or false, got {text}")
    return text.strip().lower() == "true"


def _number(options: dict[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    try:
        return parse_long(trim(text))
    except ValueError:
        raise OptionError(f"{name} must be a whole number, got {text}") from None


def _positive(options: dict[str, str], name: str, shown: str) -> int | None:
    number = _number(options, name)
    if number is not None and number <= 0:
        raise OptionError(f"{shown} must be positive")
    return number


def _span_ms(name: str, text: str) -> Millis:
    found = _SPAN.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise OptionError(f"{name} must be a time such as 500ms, 10s, 15m, 2h or 1d, got {text}")
    return int(int(found[1]) * _UNITS_MS[found[2]])
