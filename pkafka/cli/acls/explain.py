"""pk-acls --explain: what each broker would answer to a client, and by which rule."""

from typing import TYPE_CHECKING, Final

import click

from pkafka.cli.acls.flags import Flags
from pkafka.cli.acls.rules import operations, principals, resources
from pkafka.cli.acls.text import entry_text, pattern_text
from pkafka.cli.kit.kafka_command import explain, failure
from pkafka.cli.kit.output import View
from pkafka.errors import ApiError
from pkafka.security.acl import WILDCARD, AclFilter, Operation, PatternFilter, PatternType
from pkafka.security.principal import Principal

if TYPE_CHECKING:
    from pkafka.clients.admin import Admin
    from pkafka.server.security.acls import Verdict


_OF_RULE: Final = (
    "rule_resource_name",
    "rule_pattern_type",
    "rule_principal",
    "rule_host",
    "rule_operation",
    "rule_permission_type",
)


def explained(admin: "Admin", flags: Flags) -> tuple[View, ApiError | None]:
    """Decide each question of the flags by the rules that each broker has.

    Returns:
        The decisions, and why a broker did not tell its rules where one did not.

    Raises:
        click.UsageError: an operation is All or Any, or a name is missing.
        ApiError: the cluster does not tell its brokers.
    """
    questions = [
        (principal, operation, resource)
        for principal in principals(flags.principal)
        for operation in _single(operations(flags))
        for resource in resources(flags, required=True)
    ]
    host = flags.host or WILDCARD
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    refusal: ApiError | None = None
    admin.cluster.refresh()
    for broker in sorted(admin.cluster.view.brokers):
        for principal, operation, resource in questions:
            row = _row(broker, principal, host, operation, resource)
            try:
                verdict = _verdict(admin, flags, broker, principal, host, operation, resource)
            except ApiError as error:
                refusal = error
                row["error"] = failure(error)
                lines.append(f"Broker {broker}: {explain(error)[0]}")
            else:
                row.update(_decided(verdict))
                lines.append(f"Broker {broker}: {_sentence(row, verdict)}")
            rows.append(row)
    return View("decisions", lines, rows), refusal


def _single(found: list[Operation]) -> list[Operation]:
    for one in found:
        if one in (Operation.ALL, Operation.ANY):
            raise click.UsageError(f"--explain needs a single operation, not {one.title}")
    return found


def _verdict(
    admin: "Admin",
    flags: Flags,
    broker: int,
    principal: Principal,
    host: str,
    operation: Operation,
    resource: PatternFilter,
) -> "Verdict":
    from pkafka.server.security.acls import Acls

    wanted = AclFilter(resource._replace(kind=PatternType.MATCH))
    acls = Acls(principals(flags.super_user), allows_unruled=flags.allow_everyone)
    for pattern, entry in admin.describe_acls(wanted, broker=broker):
        acls.put(pattern, (*acls.of(pattern), entry))
    return acls.verdict(principal, host, operation, resource.type, resource.name or "")


def _row(
    broker: int, principal: Principal, host: str, operation: Operation, resource: PatternFilter
) -> dict[str, object]:
    return {
        "broker": broker,
        "principal": str(principal),
        "host": host,
        "operation": operation.name,
        "resource_type": resource.type.name,
        "resource_name": resource.name,
        "is_allowed": None,
        "reason": None,
        **dict.fromkeys(_OF_RULE),
        "error": None,
    }


def _decided(verdict: "Verdict") -> dict[str, object]:
    found: dict[str, object] = {"is_allowed": verdict.is_allowed, "reason": verdict.reason}
    if verdict.because is not None:
        pattern, entry = verdict.because
        values = (
            pattern.name,
            pattern.kind.name,
            entry.principal,
            entry.host,
            entry.operation.name,
            entry.permission.name,
        )
        found.update(zip(_OF_RULE, values, strict=True))
    return found


def _sentence(row: dict[str, object], verdict: "Verdict") -> str:
    may = "may" if verdict.is_allowed else "may not"
    host = "any host" if row["host"] == WILDCARD else row["host"]
    said = (
        f"{row['principal']} from {host} {may} {row['operation']} {row['resource_type']}"
        f" {row['resource_name']}: {verdict.reason}"
    )
    if verdict.because is None:
        return said
    return f"{said}: {entry_text(verdict.because.entry)} of {pattern_text(verdict.because.pattern)}"
