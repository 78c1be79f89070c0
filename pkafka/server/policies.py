"""Policies of the operator: they may refuse new topics (KIP-108) and changes of settings (KIP-133).

A policy is a Python class that create.topic.policy.class.name or alter.config.policy.class.name names as
``package.module.Class``; its package has to be importable where the broker runs. It lives in the control process. A
class of Java cannot be loaded, and then the broker does not start, as Apache Kafka without the class on its path: a
policy that is asked for and not kept would be worse than none.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, TypeVar

from pkafka.errors import ApiError, ConfigError, ErrorCode, PkafkaError
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.dynamic import ResourceType

log = logging.getLogger(__name__)

CREATE_TOPIC: Final = "create.topic.policy.class.name"
ALTER_CONFIG: Final = "alter.config.policy.class.name"


class PolicyViolation(PkafkaError):
    """What a policy raises to refuse; clients get the message with POLICY_VIOLATION."""


@dataclass(frozen=True, slots=True)
class NewTopicFacts:
    """A topic that shall be created.

    Attributes:
        topic: its name.
        partitions: how many, the broker's default filled in; None where the client assigned replicas itself.
        replication_factor: likewise.
        assignments: partition to brokers, where the client assigned them; else None.
        configs: the settings that the client gave.
    """

    topic: str
    partitions: int | None
    replication_factor: int | None
    assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfigChangeFacts:
    """A resource whose settings shall change.

    Attributes:
        type: TOPIC or BROKER.
        name: of the topic, the broker's id, or "" for all brokers.
        configs: key to value as the request names them; None where a key is deleted.
    """

    type: ResourceType
    name: str
    configs: Mapping[str, str | None]


class _Policy:
    def configure(self, configs: Mapping[str, str]) -> None:
        """Called once, with everything that the broker's file sets, keys of the policy's own included."""

    def close(self) -> None:
        """Called when the broker stops."""


class CreateTopicPolicy(_Policy):
    """Base class of policies for new topics, automatically created ones too."""

    def validate(self, request: NewTopicFacts) -> None:
        """Say nothing, or refuse.

        Raises:
            PolicyViolation: the topic must not be created.
        """
        raise NotImplementedError


class AlterConfigPolicy(_Policy):
    """Base class of policies for changes of the settings of topics and brokers."""

    def validate(self, request: ConfigChangeFacts) -> None:
        """Say nothing, or refuse.

        Raises:
            PolicyViolation: the settings must not be changed so.
        """
        raise NotImplementedError


_P = TypeVar("_P", CreateTopicPolicy, AlterConfigPolicy)


class Policies:
    """Asks the policies in force, if there are any.

    Args:
        create_topic: asked about new topics.
        alter_config: asked about changes of settings.
    """

    def __init__(
        self, create_topic: CreateTopicPolicy | None = None, alter_config: AlterConfigPolicy | None = None
    ) -> None:
        self._create_topic = create_topic
        self._alter_config = alter_config

    @classmethod
    def of(cls, config: BrokerConfig) -> "Policies":
        """Make and configure the policies that the configuration names.

        Raises:
            ConfigError: there is no such class, it is no policy of that kind, or it cannot be made.
        """
        return cls(
            _make(config, CREATE_TOPIC, CreateTopicPolicy), _make(config, ALTER_CONFIG, AlterConfigPolicy)
        )

    @staticmethod
    def check(config: BrokerConfig) -> None:
        """Look for the classes, before anything is started.

        Raises:
            ConfigError: there is no such class, or it is no policy of that kind.
        """
        _find(config, CREATE_TOPIC, CreateTopicPolicy)
        _find(config, ALTER_CONFIG, AlterConfigPolicy)

    def check_new_topic(self, facts: NewTopicFacts) -> None:
        """Ask about a new topic.

        Raises:
            ApiError: POLICY_VIOLATION; UNKNOWN_SERVER_ERROR when the policy itself fails.
        """
        policy = self._create_topic
        if policy is not None:
            _ask(CREATE_TOPIC, lambda: policy.validate(facts))

    def check_config_change(self, facts: ConfigChangeFacts) -> None:
        """Ask about a change of settings.

        Raises:
            ApiError: as :meth:`check_new_topic`.
        """
        policy = self._alter_config
        if policy is not None:
            _ask(ALTER_CONFIG, lambda: policy.validate(facts))

    def close(self) -> None:
        """The broker stops; a policy that fails now is only logged."""
        for policy in (self._create_topic, self._alter_config):
            if policy is not None:
                try:
                    policy.close()
                except Exception:
                    log.exception("A policy could not be closed")


def _make(config: BrokerConfig, key: str, kind: type[_P]) -> _P | None:
    found = _find(config, key, kind)
    if found is None:
        return None
    try:
        policy = found()
        policy.configure(config.originals)
    except Exception as error:
        log.exception("The policy of %s failed", key)
        raise ConfigError(key, f"cannot be made or configured: {error!r}", config.get(key)) from error
    return policy


def _find(config: BrokerConfig, key: str, kind: type[_P]) -> type[_P] | None:
    name = config.get(key)
    if not name:
        return None
    assert isinstance(name, str)
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        problem = f"Class {name} could not be found: it must be a class of Python, package.module.Class"
        raise ConfigError(key, problem, name) from None
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise ConfigError(key, f"{name} is not an instance of {kind.__module__}.{kind.__name__}", name)
    return found


def _ask(key: str, validate: Callable[[], None]) -> None:
    try:
        validate()
    except PolicyViolation as violation:
        raise ApiError(ErrorCode.POLICY_VIOLATION, str(violation)) from violation
    except Exception as error:
        log.exception("The policy of %s failed", key)
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
