"""Classes that settings of MirrorMaker name: policies and filters, by Java's names or Python's."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError
from pkafka.connect.mirror.filters import DefaultConfigPropertyFilter, DefaultGroupFilter, DefaultTopicFilter
from pkafka.connect.mirror.policies import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)


class ForwardingAdmin:
    """Stands for the class of Java's by which MirrorMaker administers clusters (KIP-787); there is no other here."""

    JAVA_NAME: Final = "org.apache.kafka.clients.admin.ForwardingAdmin"


_SHIPPED: Final[dict[str, type[object]]] = {
    str(each.JAVA_NAME): each
    for each in (
        DefaultReplicationPolicy,
        IdentityReplicationPolicy,
        DefaultTopicFilter,
        DefaultGroupFilter,
        DefaultConfigPropertyFilter,
        ForwardingAdmin,
    )
}


def named_class(name: str) -> type[object]:
    """The class of a name.

    Raises:
        LookupError: there is none.
    """
    if name in _SHIPPED:
        return _SHIPPED[name]
    module, _, attribute = name.rpartition(".")
    if not module or module.startswith("org.apache.kafka"):
        raise LookupError(name)
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise LookupError(name) from error
    if not isinstance(found, type):
        raise LookupError(name)
    return found


def configured(kind: type, key: str, named: Value, configs: Mapping[str, Value]) -> Value:
    """An instance of a class that a setting names, with the settings.

    Args:
        kind: what it has to be.
        key: of the setting.
        named: the class, or its name.
        configs: it is configured with.

    Raises:
        ConfigError: there is no such class, or it is something else.
    """
    try:
        found = named_class(named) if isinstance(named, str) else named
    except LookupError as error:
        raise ConfigError.of(key, named, f"Class {named} could not be found.") from error
    if not isinstance(found, type) or not issubclass(found, kind):
        raise ConfigError(f"{found} is not an instance of {kind.__name__}")
    made: Value = found()
    made.configure(configs)
    return made


def replication_policy(configs: Mapping[str, Value]) -> ReplicationPolicy:
    """The policy that settings name.

    Raises:
        ConfigError: they name none.
    """
    key = "replication.policy.class"
    named = configs.get(key, DefaultReplicationPolicy)
    made: ReplicationPolicy = configured(ReplicationPolicy, key, named, configs)
    return made
