"""The offsets of connectors as the REST API shows and changes them (KIP-875).

Those of sources are in the worker's store, those of sinks belong to a consumer group.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pkafka.clients.admin import Admin
from pkafka.clients.offsets import OffsetAndMetadata
from pkafka.connect.connector import SinkConnector, SourceConnector, SourcePlace
from pkafka.connect.connector_run import ConnectorRun
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConnectError
from pkafka.connect.rest_errors import bad_request
from pkafka.connect.storage.offset_store import ConnectorOffsets
from pkafka.connect.worker import sink_group
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition

Offsets = Sequence[tuple[SourcePlace | None, SourcePlace | None]]
"""Partitions with their offsets; None: it is to be forgotten."""

_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
_KINDS: Final = {"alter": "altered", "reset": "reset"}


def shown(offsets: Sequence[tuple[Mapping[str, Value], Mapping[str, Value]]]) -> dict[str, object]:
    """Offsets as the REST API answers with them."""
    return {
        "offsets": [{"partition": dict(partition), "offset": dict(offset)} for partition, offset in offsets]
    }


def read_offsets(body: object) -> Offsets:
    """The offsets in the body of a request.

    Raises:
        RestError: there are none.
    """
    rows = body.get("offsets") if isinstance(body, dict) else None
    if not isinstance(rows, list) or not rows:
        raise bad_request("Partitions / offsets need to be provided for an alter offsets request")
    found: list[tuple[SourcePlace | None, SourcePlace | None]] = []
    for row in rows:
        if not isinstance(row, dict):
            raise bad_request("Each of the offsets has to be an object with a partition and an offset")
        partition, offset = row.get("partition"), row.get("offset")
        for each in (partition, offset):
            if each is not None and not isinstance(each, dict):
                raise bad_request("Partitions and offsets have to be objects")
        found.append((partition, offset))
    return found


def done(what: str, *, is_checked: bool) -> dict[str, object]:
    """The answer to a change.

    Args:
        what: ``alter`` or ``reset``.
        is_checked: whether the connector has agreed.
    """
    changed = _KINDS[what]
    if is_checked:
        return {"message": f"The offsets for this connector have been {changed} successfully"}
    return {
        "message": f"The Connect framework-managed offsets for this connector have been {changed} successfully. "
        "However, if this connector manages offsets externally, they will need to be manually "
        f"{changed} in the system that the connector uses."
    }


# -- sources --


def alter_source(
    run: ConnectorRun, configs: Mapping[str, str], store: ConnectorOffsets, offsets: Offsets
) -> bool:
    """Set offsets of a source.

    Returns:
        Whether the connector has agreed to them.

    Raises:
        ConnectError: it refuses them, or they cannot be stored.
    """
    wanted = list(offsets)

    def ask(connector: object) -> bool:
        assert isinstance(connector, SourceConnector)
        return connector.alter_offsets(configs, dict(enumerate(wanted)))

    agreed = run.ask(ask)
    known = [(partition, offset) for partition, offset in wanted if partition is not None]
    if len(known) != len(wanted):
        raise bad_request("Each of the offsets needs a partition")
    store.store(known)
    return agreed


def reset_source(run: ConnectorRun, configs: Mapping[str, str], store: ConnectorOffsets) -> bool:
    """Forget the offsets of a source; else as :func:`alter_source`."""
    wanted = [(partition, None) for partition, _offset in store.all()]

    def ask(connector: object) -> bool:
        assert isinstance(connector, SourceConnector)
        # What the store has under the name of one that keeps its offsets itself was another connector's.
        is_own = type(connector).own_offsets is not SourceConnector.own_offsets
        return connector.alter_offsets(configs, {} if is_own else dict(enumerate(wanted)))

    agreed = run.ask(ask)
    if wanted:
        store.store(wanted)
    return agreed


# -- sinks --


def sink_offsets(admin: Admin, connector: str) -> list[tuple[Mapping[str, Value], Mapping[str, Value]]]:
    """The offsets of a sink.

    Raises:
        ConnectError: they cannot be read.
    """
    group = sink_group(connector)
    found = admin.list_group_offsets({group: None})[group]
    if isinstance(found, ApiError):
        raise ConnectError(f"The offsets of the group {group} cannot be read: {found}") from found
    return [
        ({_PARTITION: at.partition, _TOPIC: at.topic}, {_OFFSET: offset.offset})
        for at, offset in sorted(found.items())
        if isinstance(offset, OffsetAndMetadata)
    ]


def alter_sink(run: ConnectorRun, configs: Mapping[str, str], admin: Admin, offsets: Offsets) -> bool:
    """Set offsets of a sink; else as :func:`alter_source`.

    Raises:
        RestError: a partition or an offset is none of Kafka's.
    """
    wanted = dict(_sink_offset(*row) for row in offsets)

    def ask(connector: object) -> bool:
        assert isinstance(connector, SinkConnector)
        return connector.alter_offsets(configs, wanted)

    agreed = run.ask(ask)
    group = sink_group(run.name)
    kept = {at: offset for at, offset in wanted.items() if offset is not None}
    gone = [at for at, offset in wanted.items() if offset is None]
    outcomes: list[object] = list(admin.alter_group_offsets(group, kept).values()) if kept else []
    outcomes += admin.delete_group_offsets(group, gone).values() if gone else []
    for outcome in outcomes:
        if isinstance(outcome, ApiError) and outcome.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise ConnectError(
                f"Failed to alter consumer group offsets for connector {run.name}: {outcome}"
            ) from outcome
    return agreed


def reset_sink(run: ConnectorRun, configs: Mapping[str, str], admin: Admin) -> bool:
    """Forget the offsets of a sink: its group goes; else as :func:`alter_source`."""
    present = sink_offsets(admin, run.name)
    wanted: dict[TopicPartition, int | None] = {
        TopicPartition(str(at[_TOPIC]), int(at[_PARTITION])): None for at, _offset in present
    }

    def ask(connector: object) -> bool:
        assert isinstance(connector, SinkConnector)
        return connector.alter_offsets(configs, wanted)

    agreed = run.ask(ask)
    group = sink_group(run.name)
    outcome = admin.delete_groups([group])[group]
    if isinstance(outcome, ApiError) and outcome.code != ErrorCode.GROUP_ID_NOT_FOUND:
        raise ConnectError(
            f"Failed to reset consumer group offsets for connector {run.name}: {outcome}"
        ) from outcome
    return agreed


def _sink_offset(
    partition: SourcePlace | None, offset: SourcePlace | None
) -> tuple[TopicPartition, int | None]:
    if partition is None:
        raise bad_request("The partition for a sink connector offset cannot be null or missing")
    if partition.get(_TOPIC) is None or partition.get(_PARTITION) is None:
        raise bad_request(
            f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and '{_PARTITION}'"
        )
    number = _number(partition[_PARTITION], "Kafka partition", "Partition")
    at = TopicPartition(str(partition[_TOPIC]), number)
    if offset is None:
        return at, None
    if offset.get(_OFFSET) is None:
        raise bad_request(
            f"The offset for a sink connector should either be null or contain the key '{_OFFSET}'"
        )
    return at, _number(offset[_OFFSET], "Kafka offset", "Offset")


def _number(value: Value, what: str, kind: str) -> int:
    try:
        if isinstance(value, bool):
            raise ValueError
        return int(str(value))
    except ValueError:
        raise bad_request(
            f"Failed to parse the following {what} value in the provided offsets: '{value}'. {kind} values for sink"
            " connectors need to be integers."
        ) from None
