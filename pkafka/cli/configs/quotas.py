"""pk-configs for users, clients and ips: their quotas, and the SCRAM credentials of users; text as kafka-configs.sh."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pkafka.cli.configs.changes import Change, deleted, refuse_unset
from pkafka.cli.configs.entities import CLIENTS, IPS, USERS, Entities
from pkafka.cli.kit.java_text import java_exception
from pkafka.cli.kit.kafka_command import CommandError, failure
from pkafka.cli.kit.output import View
from pkafka.cli.kit.quota_keys import CLIENT_KEYS, IP_KEYS
from pkafka.cli.kit.spelling import did_you_mean
from pkafka.errors import ApiError, ErrorCode
from pkafka.java.numbers import double_text, parse_double, parse_int
from pkafka.net.scram import (
    ITERATIONS_DEFAULT,
    ITERATIONS_MAX,
    KNOWN,
    ScramError,
    ScramMechanism,
    check_iterations,
)

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.clients.admin.client_quotas import QuotaEntity, QuotaFilter
    from pkafka.clients.admin.results import Outcome
    from pkafka.clients.admin.scram import ScramCredentialInfo, ScramDeletion, ScramUpsertion

QUOTA_TYPES: Final = (USERS, CLIENTS, IPS)
"""Entities that this is for."""

_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)


# -- describe ---------------------------------------------------------------------------------------------


def describe(admin: "Admin", entities: Entities) -> View:
    """The quotas of entities, and the SCRAM credentials where it is about users alone."""
    from pkafka.tools.java_values import entries_hash, in_hash_map_order

    quotas = admin.describe_client_quotas(_filters(entities), strict=True)
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for entity in in_hash_map_order(quotas, entries_hash):
        values = _in_kafkas_order(quotas[entity])
        shown = ", ".join(f"{key}={double_text(value)}" for key, value in values.items())
        lines.append(f"Quota configs for {_entity_text(entity)} are {shown}")
        rows += [_row(entity, key, value=value) for key, value in values.items()]
    # Nothing is said of credentials where a client has a part in it, or the default of all users.
    if entities.kind == USERS and CLIENTS not in entities.types and "" not in entities.names:
        found = admin.describe_user_scram_credentials(entities.names or None)
        for user, outcome in found.items():
            if not (isinstance(outcome, ApiError) and outcome.code is ErrorCode.RESOURCE_NOT_FOUND):
                lines.append(_credentials_line(user, outcome))
                rows += _credentials_rows(user, outcome)
    columns = ("user", "client_id", "ip", "defaults", "name", "value", "iterations")
    return View("configs", lines, rows, columns=columns)


def _filters(entities: Entities) -> "list[QuotaFilter]":
    from pkafka.clients.admin.client_quotas import QuotaFilter, QuotaMatch

    filters = []
    for kind, name in entities.pairs:
        match = QuotaMatch.SPECIFIED
        if name is not None:
            match = QuotaMatch.EXACT if name else QuotaMatch.DEFAULT
        filters.append(QuotaFilter(_wire_type(kind), match, name or None))
    return filters


def _wire_type(kind: str) -> str:
    return {USERS: "user", CLIENTS: "client-id", IPS: "ip"}[kind]


def _in_kafkas_order(values: Mapping[str, float]) -> dict[str, float]:
    from pkafka.coordination.znode_json import string_hash
    from pkafka.tools.java_values import in_hash_map_order

    return {key: values[key] for key in in_hash_map_order(values, string_hash)}


def _entity_text(entity: "QuotaEntity") -> str:
    names = dict(entity)
    return ", ".join(
        f"the default {noun}" if names[kind] is None else f"{noun} '{names[kind]}'"
        for kind, noun in (("user", "user-principal"), ("client-id", "client-id"), ("ip", "ip"))
        if kind in names
    )


def _row(
    entity: "QuotaEntity",
    name: str | None,
    *,
    value: float | None = None,
    iterations: int | None = None,
    error: Exception | None = None,
) -> dict[str, object]:
    names = dict(entity)
    return {
        "user": names.get("user"),
        "client_id": names.get("client-id"),
        "ip": names.get("ip"),
        "defaults": [kind for kind in ("user", "client-id", "ip") if kind in names and names[kind] is None],
        "name": name,
        "value": value,
        "iterations": iterations,
        "error": failure(error),
    }


def _credentials_line(user: str, outcome: "Outcome[tuple[ScramCredentialInfo, ...]]") -> str:
    if isinstance(outcome, ApiError):
        return (
            f"Error retrieving SCRAM credential configs for user-principal '{user}': "
            f"ExecutionException: {java_exception(outcome)}"
        )
    shown = ", ".join(f"{each.mechanism.mechanism_name}=iterations={each.iterations}" for each in outcome)
    return f"SCRAM credential configs for user-principal '{user}' are {shown}"


def _credentials_rows(
    user: str, outcome: "Outcome[tuple[ScramCredentialInfo, ...]]"
) -> list[dict[str, object]]:
    entity: QuotaEntity = frozenset({("user", user)})
    if isinstance(outcome, ApiError):
        return [_row(entity, None, error=outcome)]
    return [_row(entity, each.mechanism.mechanism_name, iterations=each.iterations) for each in outcome]


# -- alter ------------------------------------------------------------------------------------------------


def alter(
    admin: "Admin", entities: Entities, added: Mapping[str, str], removed: Sequence[str], *, dry_run: bool
) -> list[Change]:
    """Change quotas or credentials, as the keys say.

    Args:
        dry_run: check, and change nothing.

    Raises:
        CommandError: the keys do not belong to the entities, or have no such values.
        ApiError: the broker refuses.
    """
    if _are_credentials(entities, added, removed):
        return _alter_credentials(admin, entities.names[0], added, removed, dry_run=dry_run)
    return _alter_quotas(admin, entities, added, removed, dry_run=dry_run)


def _are_credentials(entities: Entities, added: Mapping[str, str], removed: Sequence[str]) -> bool:
    """Whether it is about SCRAM; refuses keys that do not belong to the entities or to each other."""
    quotas = IP_KEYS if entities.kind == IPS else CLIENT_KEYS
    for_users_alone = entities.types == (USERS,)
    mechanisms = [each.mechanism_name for each in KNOWN] if for_users_alone else []
    for verb, keys in (("added", tuple(added)), ("deleted", tuple(removed))):
        unknown = [
            key for key in keys if key not in quotas and not (for_users_alone and ScramMechanism.of_name(key))
        ]
        if unknown:
            kind, what = _kind_and_keys(entities)
            raise CommandError(
                f"Only {what} configs can be {verb} for '{kind}' using --bootstrap-server. "
                f"Unexpected config names: {', '.join(unknown)}",
                hint=did_you_mean(unknown[0], (*quotas, *mechanisms)),
            )
    scram = [key for key in (*added, *removed) if ScramMechanism.of_name(key)]
    if scram and "" in entities.names:
        raise CommandError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials "
            "using --bootstrap-server."
        )
    if scram and len(scram) < len(added) + len(removed):
        raise CommandError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' "
            "using --bootstrap-server."
        )
    return bool(scram)


def _kind_and_keys(entities: Entities) -> tuple[str, str]:
    if entities.kind == IPS:
        return IPS, "connection quota"
    return (USERS, "quota and SCRAM credential") if entities.types == (USERS,) else (CLIENTS, "quota")


def _alter_quotas(
    admin: "Admin", entities: Entities, added: Mapping[str, str], removed: Sequence[str], *, dry_run: bool
) -> list[Change]:
    changes: dict[str, float | None] = {}
    for key, text in added.items():
        try:
            changes[key] = parse_double(text)
        except ValueError as error:
            raise CommandError(f"Cannot parse quota configuration value for {key}: {text}") from error
    present = next(iter(admin.describe_client_quotas(_filters(entities), strict=True).values()), {})
    refuse_unset(removed, present)
    changes.update(dict.fromkeys(removed))
    entity = frozenset((_wire_type(kind), name or None) for kind, name in entities.pairs)
    outcome = admin.alter_client_quotas({entity: changes}, validate_only=dry_run)[entity]
    if isinstance(outcome, ApiError):
        raise outcome
    return [*(Change(key, "SET", text) for key, text in added.items()), *deleted(removed)]


def _alter_credentials(
    admin: "Admin", user: str, added: Mapping[str, str], removed: Sequence[str], *, dry_run: bool
) -> list[Change]:
    from pkafka.clients.admin.scram import ScramDeletion, ScramUpsertion

    changes: list[ScramUpsertion | ScramDeletion] = [
        ScramDeletion(user=user, mechanism=ScramMechanism.of_name(key) or ScramMechanism.UNKNOWN)
        for key in removed
    ]
    for key, text in added.items():
        mechanism = ScramMechanism.of_name(key) or ScramMechanism.UNKNOWN
        iterations, password = parse_credential(mechanism, text)
        changes.append(
            ScramUpsertion(user=user, mechanism=mechanism, password=password, iterations=iterations)
        )
    if dry_run:
        _check_credentials(admin, user, changes)
    else:
        outcome = admin.alter_user_scram_credentials(changes)[user]
        if isinstance(outcome, ApiError):
            raise outcome
    return [*(Change(key, "SET", None) for key in added), *deleted(removed)]


def _check_credentials(
    admin: "Admin", user: str, changes: "Iterable[ScramUpsertion | ScramDeletion]"
) -> None:
    """Refuse credentials that a broker would refuse: its request cannot ask for a check alone."""
    from pkafka.clients.admin.scram import ScramDeletion

    found = admin.describe_user_scram_credentials([user])[user]
    present = () if isinstance(found, ApiError) else [each.mechanism for each in found]
    for each in changes:
        if isinstance(each, ScramDeletion):
            if each.mechanism not in present:
                raise ApiError(
                    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
                )
        elif not each.password:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Password must not be empty")
        elif each.iterations > ITERATIONS_MAX:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")


def parse_credential(mechanism: ScramMechanism, text: str) -> tuple[int, bytes]:
    """Iterations and password of ``iterations=8192,password=...``; the first may be left out, or be -1.

    Raises:
        CommandError: it is none; the text of it is not repeated.
    """
    found = _CREDENTIAL.fullmatch(text)
    try:
        iterations = parse_int(found[1] or "-1") if found is not None and found[1] != "" else None
    except ValueError:
        iterations = None
    if found is None or iterations is None:
        raise CommandError(
            f"Invalid credential property {mechanism.mechanism_name}",
            hint=f"{mechanism.mechanism_name}=[iterations=8192,password=...]",
        )
    iterations = ITERATIONS_DEFAULT if iterations == -1 else iterations
    try:
        check_iterations(mechanism, iterations)
    except ScramError as error:
        raise CommandError(str(error)) from error
    return iterations, found[2].encode()
