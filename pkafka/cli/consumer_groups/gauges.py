"""Consumer groups for Prometheus, by the names that dashboards of Kafka's groups look for (kafka_exporter's)."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pkafka.cli.kit.output import Gauge
from pkafka.errors import ApiError

if TYPE_CHECKING:
    from pkafka.clients.admin.results import GroupDescription
    from pkafka.tools.groups.description import GroupLag


def lag_gauges(groups: "Iterable[GroupLag]") -> list[Gauge]:
    """How far groups have come; what is not known of a partition is left out."""
    offsets: list[tuple[Mapping[str, str], int]] = []
    ends: list[tuple[Mapping[str, str], int]] = []
    lags: list[tuple[Mapping[str, str], int]] = []
    for group in groups:
        for each in group.partitions:
            topic, partition = each.partition
            labels = {
                "consumergroup": group.description.group_id,
                "topic": topic,
                "partition": str(partition),
            }
            if each.offset is not None:
                offsets.append((labels, each.offset))
            if not isinstance(each.end, ApiError):
                ends.append((labels, each.end))
            if each.lag is not None:
                lags.append((labels, each.lag))
    return [
        Gauge("kafka_consumergroup_current_offset", "Offset at which the group goes on.", offsets),
        Gauge("kafka_consumergroup_log_end_offset", "End of what the group's consumers can read.", ends),
        Gauge("kafka_consumergroup_lag", "Offsets between the two.", lags),
    ]


def group_gauges(groups: "Iterable[GroupDescription]") -> list[Gauge]:
    """How many members groups have, and the state they are in, which is 1 where all others are 0."""
    from pkafka.clients.admin.results import GroupState

    states = [each for each in GroupState if each is not GroupState.UNKNOWN]
    described = list(groups)
    return [
        Gauge(
            "kafka_consumergroup_members",
            "Members of the group.",
            [({"consumergroup": each.group_id}, len(each.members)) for each in described],
        ),
        Gauge(
            "kafka_consumergroup_state",
            "1 for the state that the group is in.",
            [
                ({"consumergroup": each.group_id, "state": state.value}, int(each.state is state))
                for each in described
                for state in states
            ],
        ),
    ]
