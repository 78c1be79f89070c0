"""Client quotas as they are stored: whose they are, which keys and values there are, which a filter finds (KIP-546)."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from pkafka.coordination.znodes import DEFAULT_ENTITY, desanitize, sanitize
from pkafka.errors import ApiError, ErrorCode
from pkafka.java.numbers import double_text, parse_double
from pkafka.server.config.dynamic import Configs

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity: TypeAlias = Mapping[str, str | None]
"""Names by type; None is the default of a type."""

_PAIR: Final = "/clients/"
_EPSILON: Final = 1e-6
_WHOLE: Final[Mapping[str, int]] = MappingProxyType(
    {"producer_byte_rate": 64, "consumer_byte_rate": 64, "connection_creation_rate": 32}
)
"""Keys whose values are whole numbers, and of how many bits."""
_OF_CLIENTS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
_OF_ADDRESSES: Final = ("connection_creation_rate",)


class StoredAt(NamedTuple):
    """Says where the settings of an entity are stored."""

    entity_type: str
    """``users``, ``clients`` or ``ips``."""
    entity_name: str


def stored_at(entity: Entity) -> StoredAt:
    """Find where the quotas of an entity are stored.

    Raises:
        ApiError: INVALID_REQUEST, there can be no such entity.
    """
    names: dict[str, str] = {}
    for entity_type, name in entity.items():
        if entity_type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise _invalid(f"Empty {entity_type} not supported")
        names[entity_type] = DEFAULT_ENTITY if name is None else sanitize(name)
    if not names:
        raise _invalid("Invalid empty client quota entity")
    if IP in names:
        if len(names) > 1:
            problem = (
                "Invalid quota entity combination, IP entity should not be used with user/client ID entity."
            )
            raise _invalid(problem)
        return StoredAt("ips", names[IP])
    if USER not in names:
        return StoredAt("clients", names[CLIENT_ID])
    pair = f"{_PAIR}{names[CLIENT_ID]}" if CLIENT_ID in names else ""
    return StoredAt("users", names[USER] + pair)


def entity_of(at: StoredAt) -> Entity:
    """Read the names of an entity from where its quotas are stored: the inverse of :func:`stored_at`."""
    if at.entity_type == "ips":
        return {IP: _name(at.entity_name)}
    if at.entity_type == "clients":
        return {CLIENT_ID: _name(at.entity_name)}
    user, pair, client_id = at.entity_name.partition(_PAIR)
    return {USER: _name(user), CLIENT_ID: _name(client_id)} if pair else {USER: _name(user)}


def _name(stored: str) -> str | None:
    return None if stored == DEFAULT_ENTITY else desanitize(stored)


def changed(entity: Entity, stored: Configs, ops: Iterable[tuple[str, float | None]]) -> dict[str, str]:
    """Give the settings of an entity after a change of its quotas.

    Args:
        stored: its settings before, which may be others than quotas, too.
        ops: keys with values, or None to take a quota away.

    Raises:
        ApiError: INVALID_REQUEST, the entity has no such quota, or the quota no such value.
    """
    allowed = _OF_ADDRESSES if IP in entity else _OF_CLIENTS
    settings = dict(stored)
    for key, value in ops:
        if value is None:
            settings.pop(key, None)
        elif key not in allowed:
            raise _invalid(f"Invalid configuration key {key}")
        else:
            settings[key] = _text(key, value)
    return settings


def _text(key: str, value: float) -> str:
    bits = _WHOLE.get(key)
    if bits is None:
        return double_text(value)
    highest = 2 ** (bits - 1) - 1
    # As Java casts: towards zero, what is no number to 0, what is too large to the largest.
    shifted = value + _EPSILON
    whole = 0 if shifted != shifted else int(max(-highest - 1.0, min(shifted, float(highest))))
    whole = min(whole, highest)
    if abs(whole - value) > _EPSILON:
        raise _invalid(f"Configuration {key} must be a {'LONG' if bits == 64 else 'INT'} value")
    return str(whole)


def quotas_of(settings: Configs) -> dict[str, float]:
    """The quotas among the settings of an entity.

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR, a stored value is no number.
    """
    found = {}
    for key in (*_OF_CLIENTS, *_OF_ADDRESSES):
        text = settings.get(key)
        if text is not None:
            try:
                found[key] = parse_double(text)
            except ValueError:
                raise ApiError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"Unexpected client quota configuration value: {key} -> {text}",
                ) from None
    return found


class Component(NamedTuple):
    """Says which names of one type a filter finds."""

    entity_type: str
    match: int
    name: str | None


_EXACT, _DEFAULT, _ANY = range(3)


def check_filter(components: Sequence[Component]) -> None:
    """Refuse a filter that makes no sense.

    Raises:
        ApiError: INVALID_REQUEST or UNSUPPORTED_VERSION; UNKNOWN_SERVER_ERROR for one that Kafka does not foresee.
    """
    seen: set[str] = set()
    for one in components:
        if one.match not in (_EXACT, _DEFAULT, _ANY) or (one.match == _EXACT and one.name is None):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    for one in components:
        if one.entity_type in seen:
            noun = {CLIENT_ID: "client-id"}.get(one.entity_type, one.entity_type)
            raise _invalid(f"Duplicate {noun} filter component entity type")
        if not one.entity_type:
            raise _invalid("Unexpected empty filter component entity type")
        if one.entity_type not in (USER, CLIENT_ID, IP):
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{one.entity_type}' not supported"
            )
        seen.add(one.entity_type)
    if IP in seen and len(seen) > 1:
        problem = (
            "Invalid entity filter component combination, IP filter component should not be used with user or"
            " clientId filter component."
        )
        raise _invalid(problem)


def is_found(entity: Entity, components: Sequence[Component], *, strict: bool) -> bool:
    """Whether a filter finds an entity.

    Args:
        components: all of which have to match.
        strict: whether the entity must have no other types than these.
    """
    if strict and len(entity) != len(components):
        return False
    return all(one.entity_type in entity and _matches(entity[one.entity_type], one) for one in components)


def _matches(name: str | None, component: Component) -> bool:
    if component.match == _EXACT:
        return name == component.name
    return component.match == _ANY or name is None


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, problem)
