"""Who decides what clients may do: the rules of the cluster (Kafka's AclAuthorizer), or a class of the operator.

``authorizer.class.name`` names it. A class of the operator is one of Python, ``package.module.Class`` or
``package.module:Class``, with the methods of :class:`OperatorAuthorizer`. Each process of the broker makes one for
itself. A class of Java cannot be loaded, and then the broker does not start: it would let in what it was told to keep
out.
"""

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from typing import Final, NamedTuple, Protocol, runtime_checkable

from pkafka.errors import ApiError, ConfigError, ErrorCode
from pkafka.java.addresses import host_address
from pkafka.security.acl import WILDCARD, Entry, Operation, Pattern, ResourceType
from pkafka.security.principal import Principal
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.security.acls import Acls
from pkafka.server.security.rights import UNLIMITED, DecidedRights, Denials, Rights

log = logging.getLogger(__name__)

KEY: Final = "authorizer.class.name"
ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
_JAVAS: Final = ("kafka.", "org.apache.kafka.")
_CLIENTS_MAX: Final = 10_000
"""How many pairs of principal and host are remembered at once."""


class Authorizer(Protocol):
    """Gives the rights of clients."""

    @property
    def denials(self) -> Denials:
        """What was refused in this process, by principal."""
        ...

    def rights(self, principal: Principal, host: str) -> Rights:
        """What a principal may do from a host.

        Raises:
            ApiError: it is not known yet.
        """
        ...

    def close(self) -> None:
        """The broker stops."""
        ...


class Resource(NamedTuple):
    """Names a resource to an authorizer of the operator."""

    type: str
    """Topic, Group, Cluster, TransactionalId, DelegationToken or User."""
    name: str
    """The one resource of type Cluster is called kafka-cluster."""


@runtime_checkable
class OperatorAuthorizer(Protocol):
    """What a class of the operator has to have, to be named by ``authorizer.class.name``.

    It is asked for each resource of each request, on the event loop of the process that serves the request, so it must
    answer at once. An exception counts as a denial, and is logged. ACLs of Kafka do not count beside it.
    """

    def configure(self, configs: Mapping[str, str]) -> None:
        """Called once, with everything that the broker's file sets, keys of the class's own included."""
        ...

    def authorize(self, principal: str, host: str, operation: str, resource: Resource) -> bool:
        """Whether a principal may do something.

        Args:
            principal: as ``User:alice``; ``User:ANONYMOUS`` for clients that did not log in.
            host: the client's address.
            operation: Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs,
                IdempotentWrite, CreateTokens or DescribeTokens.
            resource: the name ``*`` asks for any resource of the type.
        """
        ...

    def close(self) -> None:
        """Called when the broker stops."""
        ...


class RulesUnknown(ApiError):
    """A client asks before this process has heard of the rules: it may connect again."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, "the ACLs are not known yet")


class AclAuthorizer:
    """Decides by the rules of the cluster, which the control process reads and tells to the other processes.

    Args:
        super_users, allows_unruled: as :class:`Acls` takes them.

    Attributes:
        acls: the rules.
        denials: what was refused.
    """

    def __init__(self, super_users: Iterable[Principal], *, allows_unruled: bool) -> None:
        self.acls = Acls(super_users, allows_unruled=allows_unruled)
        self.denials = Denials()
        self._rights: dict[tuple[Principal, str], DecidedRights] = {}
        self._knows = False

    def rights(self, principal: Principal, host: str) -> Rights:
        """See :meth:`Authorizer.rights`; the object is another one after each change of the rules."""
        found = self._rights.get((principal, host))
        if found is None:
            found = self._new_rights(principal, host)
        return found

    def _new_rights(self, principal: Principal, host: str) -> DecidedRights:
        if not self._knows:
            raise RulesUnknown
        if len(self._rights) >= _CLIENTS_MAX:
            self._forget()
        address = host_address(host)
        rights = self._rights[principal, host] = DecidedRights(
            principal,
            address,
            partial(self.acls.may, principal, address),
            partial(self.acls.may_any, principal, address),
            self.denials,
            remembers=True,
        )
        return rights

    def replace(self, rules: Mapping[Pattern, Iterable[Entry]]) -> None:
        """Have these rules and no others."""
        self.acls.replace(rules)
        self._knows = True
        self._forget()

    def change(self, rules: Mapping[Pattern, Iterable[Entry]]) -> None:
        """Have these rules for these patterns, once there are rules at all."""
        if self._knows:
            for pattern, entries in rules.items():
                self.acls.put(pattern, entries)
            self._forget()

    def _forget(self) -> None:
        for rights in self._rights.values():
            rights.holds = False
        self._rights = {}

    def close(self) -> None:
        """See :meth:`Authorizer.close`."""


class OwnAuthorizer:
    """Decides as a class of the operator does.

    Args:
        own: an object of that class, configured.

    Attributes:
        denials: what was refused.
    """

    def __init__(self, own: OperatorAuthorizer) -> None:
        self._own = own
        self.denials = Denials()

    def rights(self, principal: Principal, host: str) -> Rights:
        """See :meth:`Authorizer.rights`."""
        address = host_address(host)
        decide = partial(self._decide, str(principal), address)
        return DecidedRights(
            principal,
            address,
            decide,
            lambda what, kind: decide(what, kind, WILDCARD),
            self.denials,
            remembers=False,
        )

    def _decide(self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        try:
            return bool(self._own.authorize(principal, host, operation.title, Resource(kind.title, name)))
        except Exception:
            log.exception("The class of %s failed: %s is denied to %s", KEY, operation.title, principal)
            return False

    def close(self) -> None:
        """See :meth:`Authorizer.close`; a class that fails now is only logged."""
        try:
            self._own.close()
        except Exception:
            log.exception("The class of %s could not be closed", KEY)


def rights_of(authorizer: Authorizer | None, principal: Principal, host: str) -> Rights:
    """What a client may do; everything without an authorizer.

    Raises:
        ApiError: it is not known yet.
    """
    return UNLIMITED if authorizer is None else authorizer.rights(principal, host)


def authorizer_of(config: BrokerConfig) -> Authorizer | None:
    """Make the authorizer that the configuration names.

    Raises:
        ConfigError: there is no such class, or it cannot be made.
    """
    name = _name(config)
    if not name:
        return None
    if name == ACL_AUTHORIZER:
        return AclAuthorizer(config.super_users, allows_unruled=config.allow_everyone_if_no_acl_found)
    try:
        own = _find(name)()
        own.configure(config.originals)
    except ConfigError:
        raise
    except Exception as error:
        log.exception("The class of %s failed", KEY)
        raise ConfigError(KEY, f"cannot be made or configured: {error!r}", name) from error
    return OwnAuthorizer(own)


def check(config: BrokerConfig) -> None:
    """Look for the class, before anything is started.

    Raises:
        ConfigError: there is no such class, or it lacks a method.
    """
    name = _name(config)
    if name and name != ACL_AUTHORIZER:
        _find(name)


def _name(config: BrokerConfig) -> str:
    return str(config.get(KEY) or "").strip()


def _find(name: str) -> type[OperatorAuthorizer]:
    if name.startswith(_JAVAS):
        problem = f"Class {name} could not be found: it must be {ACL_AUTHORIZER}, or a class of Python"
        raise ConfigError(KEY, problem, name)
    module, _, attribute = name.rpartition(":" if ":" in name else ".")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        problem = f"Class {name} could not be found: it must be a class of Python, package.module.Class"
        raise ConfigError(KEY, problem, name) from None
    missing = [one for one in ("configure", "authorize", "close") if not callable(getattr(found, one, None))]
    if not isinstance(found, type) or missing:
        problem = f"{name} is no class with the methods of {__name__}.OperatorAuthorizer"
        raise ConfigError(KEY, f"{problem}: it lacks {', '.join(missing)}" if missing else problem, name)
    return found
