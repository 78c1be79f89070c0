"""The assignors of ``partition.assignment.strategy``."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pkafka.clients.consumer.assignors.api import Assignor, RebalanceProtocol
from pkafka.clients.consumer.assignors.range_assignor import RangeAssignor
from pkafka.clients.consumer.assignors.round_robin import RoundRobinAssignor
from pkafka.clients.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from pkafka.clients.plugins import load_all
from pkafka.errors import ConfigError

KEY: Final = "partition.assignment.strategy"
BUILT_IN: Final[Mapping[str, type[Assignor]]] = {
    cls.__name__: cls
    for cls in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}


def load_assignors(named: object, configs: Mapping[str, object]) -> tuple[list[Assignor], RebalanceProtocol]:
    """The assignors, best first, and how members rebalance that use them: the highest protocol that all support.

    Args:
        named: the value of the configuration: names of classes (Kafka's own for the built-in ones), classes, objects.
        configs: handed to the ``configure`` of each.

    Raises:
        ConfigError: one of them is no assignor, two have the same name, or they have no protocol in common.
    """
    assignors: list[Assignor] = load_all(
        KEY, named, configs, built_in=BUILT_IN, methods=("assign", "subscription_user_data", "on_assignment")
    )
    if not assignors:
        raise ConfigError(KEY, "must name an assignor", named)
    names = [each.name for each in assignors]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(KEY, f"names two assignors that both call themselves {twice}", named)
    return assignors, _common_protocol(assignors)


def _common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    common = reduce(frozenset.intersection, (frozenset(each.supported_protocols) for each in assignors))
    if not common:
        raise ConfigError(
            KEY, "names assignors without a common rebalance protocol", [each.name for each in assignors]
        )
    return max(common)
