"""The state-change log: the leaders of partitions, and why they lead, in Kafka's words (``state.change.logger``).

The controller logs its decisions and its requests to brokers; each broker logs the requests and what it does. Where a
summary at INFO says enough, the lines about single partitions are at TRACE, as in Kafka.
"""

import logging
from collections.abc import Iterable
from typing import Any, Final

from pkafka.model import BrokerId, LeaderEpoch

STATE_CHANGE_LOGGER: Final = "state.change.logger"
TRACE: Final = 5
"""Kafka's level below DEBUG."""
logging.addLevelName(TRACE, "TRACE")

_logger: Final = logging.getLogger(STATE_CHANGE_LOGGER)


class StateChangeLog:
    """Writes the log of a controller or a broker, whose name begins each line.

    Args:
        prefix: ``[Controller id=0 epoch=1] `` or ``[Broker id=0] ``.
    """

    __slots__ = ("_prefix",)

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    @property
    def is_tracing(self) -> bool:
        """Whether lines about single partitions are wanted."""
        return _logger.isEnabledFor(TRACE)

    def trace(self, line: str, *values: object) -> None:
        """A line about one partition or replica."""
        self._log(TRACE, line, values)

    def info(self, line: str, *values: object) -> None:
        """A decision, or the summary of a request."""
        self._log(logging.INFO, line, values)

    def warning(self, line: str, *values: object) -> None:
        """Log a request that is ignored."""
        self._log(logging.WARNING, line, values)

    def error(self, line: str, *values: object) -> None:
        """Log a change that failed."""
        self._log(logging.ERROR, line, values)

    def _log(self, level: int, line: str, values: tuple[object, ...]) -> None:
        if _logger.isEnabledFor(level):
            _logger.log(level, self._prefix + line, *values)


def controller_log(controller: BrokerId, epoch: int) -> StateChangeLog:
    """The log of a controller in one epoch."""
    return StateChangeLog(f"[Controller id={controller} epoch={epoch}] ")


def broker_log(broker: BrokerId) -> StateChangeLog:
    """The log of a broker."""
    return StateChangeLog(f"[Broker id={broker}] ")


def recovery_word(recovering: bool) -> str:
    """How Kafka writes the recovery state of a leader (KIP-704)."""
    return "RECOVERING" if recovering else "RECOVERED"


def leader_and_isr_text(
    leader: BrokerId,
    leader_epoch: LeaderEpoch,
    isr: Iterable[BrokerId],
    partition_epoch: int,
    *,
    recovering: bool,
) -> str:
    """A partition's state as the controller logs it."""
    brokers = ", ".join(f"BrokerState(brokerId={one}, brokerEpoch=-1)" for one in isr)
    return (
        f"LeaderAndIsr(leader={leader}, leaderEpoch={leader_epoch}, isrWithBrokerEpoch=List({brokers}),"
        f" leaderRecoveryState={recovery_word(recovering)}, partitionEpoch={partition_epoch})"
    )


def partition_state_text(state: Any) -> str:  # noqa: ANN401 - a structure of any control request
    """A partition's part of a control request as Kafka logs it: ``LeaderAndIsrPartitionState(topicName='t', ...)``."""
    values = ", ".join(
        f"{_camel(field.name)}={_value(getattr(state, field.name))}" for field in state.__fields__
    )
    return f"{type(state).__name__}({values})"


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)
