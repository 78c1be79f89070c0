"""pk-doctor: what is wrong between a client and its cluster. Kafka has no such tool."""

from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.options import Common, command, connection_options, settle
from pkafka.cli.kit.output import View, note

if TYPE_CHECKING:
    from pkafka.clients.config import ClientConfig
    from pkafka.tools.doctor.security import Finding

_WIDTH = 11


@command("pk-doctor")
@connection_options
@click.option(
    "--security", is_flag=True, help="Go the way of a client: TCP, TLS, name, mechanism, login, rights."
)
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", help="Look at the rights on this topic, too."
)
def main(common: Common, security: bool, topics: tuple[str, ...]) -> int:
    """Say where the way into a cluster is closed, and what to do about it."""
    if not security:
        raise click.UsageError('Missing required argument "[security]"')
    from pkafka.clients.config import ClientConfig
    from pkafka.clock import SystemClock
    from pkafka.tools.doctor.security import SecurityCheck

    properties = common.admin_properties()
    settle(properties, _client_config)
    check = SecurityCheck(ClientConfig.from_properties(properties), SystemClock())
    findings = list(check.walk(topics))
    common.show(View("findings", list(_lines(findings)), [_row(each) for each in findings]))
    from pkafka.tools.doctor.security import Verdict

    failed = next((each for each in findings if each.verdict is Verdict.FAILED), None)
    if failed is None:
        return ExitStatus.OK
    note(f"pk-doctor: {failed.address}: {failed.part.value}: {failed.detail}")
    return _status(failed)


def _client_config() -> "type[ClientConfig]":
    from pkafka.clients.config import ClientConfig

    return ClientConfig


def _row(finding: "Finding") -> dict[str, object]:
    return {
        "address": finding.address,
        "stage": finding.part.value,
        "verdict": finding.verdict.value,
        "detail": finding.detail,
        "hint": finding.hint,
    }


def _lines(findings: "list[Finding]") -> "list[str]":
    lines: list[str] = []
    address = None
    for finding in findings:
        if finding.address != address:
            address = finding.address
            lines.append(address)
        text = (
            f"  {finding.part.value.ljust(_WIDTH)}{finding.verdict.value.ljust(_WIDTH + 1)}{finding.detail}"
        )
        lines.append(text.rstrip())
        if finding.hint:
            lines.append(f"  {' ' * (2 * _WIDTH + 1)}({finding.hint})")
    return lines


def _status(failed: "Finding") -> ExitStatus:
    """Of the first failure: 3 when there is no connection, 4 when it is not let in."""
    from pkafka.tools.doctor.security import Part

    return ExitStatus.UNREACHABLE if failed.part is Part.TCP else ExitStatus.AUTHENTICATION


if __name__ == "__main__":
    main()
