"""pk-delegation-tokens: make, renew, end and describe delegation tokens, as kafka-delegation-tokens.sh."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from pkafka.cli.kit.actions import Actions
from pkafka.cli.kit.exit_status import compat_39
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.options import Common, command, connection_options, exclude, require
from pkafka.cli.kit.output import OutputFormat, View, hint, line
from pkafka.security.principal import Principal

if TYPE_CHECKING:
    from pkafka.clients.admin.delegation_tokens import DelegationToken

_EXAMPLES: Final = {
    "create": "--command-config alice.properties --create --max-life-time-period -1 --renewer-principal User:bob",
    "renew": "--command-config alice.properties --renew --hmac HMAC --renew-time-period -1",
    "expire": "--command-config alice.properties --expire --hmac HMAC --expiry-time-period -1",
    "describe": "--command-config alice.properties --describe --owner-principal User:alice",
}
_BELONGS: Final[Mapping[str, Collection[str]]] = {
    "owner-principal": ("create", "describe"),
    "renewer-principal": ("create",),
    "max-life-time-period": ("create",),
    "hmac": ("renew", "expire"),
    "renew-time-period": ("renew",),
    "expiry-time-period": ("expire",),
    "dry-run": ("expire",),
}
_COLUMNS: Final = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
_WIDTHS: Final = (15, 30, 15, 15, 25, 15, 15, 15)


class _Flags(NamedTuple):
    """What was given beside the connection."""

    create: bool
    renew: bool
    expire: bool
    describe: bool
    owner_principal: tuple[str, ...]
    renewer_principal: tuple[str, ...]
    max_life_time_period: int | None
    hmac: str | None
    renew_time_period: int | None
    expiry_time_period: int | None
    dry_run: bool


@command("pk-delegation-tokens", actions=Actions(_EXAMPLES, _BELONGS))
@connection_options
@click.option("--create", is_flag=True, help="Make a token.")
@click.option("--renew", is_flag=True, help="Have a token last longer.")
@click.option("--expire", is_flag=True, help="Have a token end.")
@click.option("--describe", is_flag=True, help="Describe tokens.")
@click.option(
    "--owner-principal",
    multiple=True,
    metavar="TYPE:NAME",
    help="Whom a new token lets in, in place of yourself; whose tokens --describe shows, theirs to renew included.",
)
@click.option(
    "--renewer-principal",
    multiple=True,
    metavar="TYPE:NAME",
    help="Who may renew and end a new token, beside its owner.",
)
@click.option(
    "--max-life-time-period",
    type=int,
    metavar="MS",
    help="How long a new token can be renewed; -1 for delegation.token.max.lifetime.ms of the broker.",
)
@click.option("--hmac", metavar="HMAC", help="The token that is meant, by its HMAC.")
@click.option(
    "--renew-time-period",
    type=int,
    metavar="MS",
    help="How long the token lasts from now on; -1 for delegation.token.expiry.time.ms of the broker.",
)
@click.option(
    "--expiry-time-period", type=int, metavar="MS", help="When the token ends, from now on; -1 for at once."
)
@click.option("--dry-run", is_flag=True, help="Say which token --expire would end, and do nothing.")
def main(common: Common, **flags: object) -> None:
    """Make, renew, end and describe delegation tokens."""
    given = _Flags(**flags)  # type: ignore[arg-type]
    _check(given)
    if given.create:
        _create(common, given)
    elif given.renew:
        _renew(common, given)
    elif given.expire:
        _expire(common, given)
    else:
        _describe(common, given)


def _check(flags: _Flags) -> None:
    """Refuse flags that do not go together.

    Raises:
        click.UsageError: in Kafka's words.
    """
    values = flags._asdict()
    if sum((flags.create, flags.renew, flags.expire, flags.describe)) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --create, --renew, --expire or --describe"
        )
    if flags.create:
        require(values, "max-life-time-period")
    elif flags.renew:
        require(values, "hmac", "renew-time-period")
    elif flags.expire:
        require(values, "hmac", "expiry-time-period")
    given = values | {name: True for name, value in values.items() if value == 0 and value is not False}
    exclude(given, "create", "hmac", "renew-time-period", "expiry-time-period", "dry-run")
    exclude(
        given,
        "renew",
        *("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal", "dry-run"),
    )
    # Kafka's tool takes renewers here and at --describe, and does nothing with them.
    exclude(given, "expire", "max-life-time-period", "renew-time-period", "owner-principal")
    exclude(
        given,
        "describe",
        *("renew-time-period", "expiry-time-period", "hmac", "max-life-time-period", "dry-run"),
    )


def _create(common: Common, flags: _Flags) -> None:
    period_ms = flags.max_life_time_period
    assert period_ms is not None
    renewers = _principals(flags.renewer_principal)
    _say(
        common,
        f"Calling create token operation with renewers :{_listed(renewers)} , max-life-time-period :{period_ms}",
    )
    owners = _principals(flags.owner_principal)
    with common.admin() as admin:
        token = admin.create_delegation_token(
            owner=owners[0] if owners else None, renewers=renewers, lifetime_max_ms=period_ms
        )
    lines = [f"Created delegation token with tokenId : {token.token_id}", "", *_table([token])]
    common.show(View("tokens", lines, [_row(token)]))


def _renew(common: Common, flags: _Flags) -> None:
    period_ms = flags.renew_time_period
    assert period_ms is not None
    _say(
        common,
        f"Calling renew token operation with hmac :{flags.hmac} , renew-time-period :{period_ms}",
    )
    hmac = _decoded(flags.hmac)
    with common.admin() as admin:
        ends_ms = admin.renew_delegation_token(hmac, period_ms=period_ms)
    lines = [f"Completed renew operation. New expiry date : {_date(ends_ms)}"]
    common.show(View("tokens", lines, [{"hmac": flags.hmac, "expires_ms": ends_ms}]))


def _expire(common: Common, flags: _Flags) -> None:
    period_ms = flags.expiry_time_period
    assert period_ms is not None
    if flags.dry_run:
        _show_victim(common, flags)
        return
    _say(
        common,
        f"Calling expire token operation with hmac :{flags.hmac} , expire-time-period :{period_ms}",
    )
    hmac = _decoded(flags.hmac)
    with common.admin() as admin:
        ends_ms = admin.expire_delegation_token(hmac, period_ms=period_ms)
    lines = [f"Completed expire operation. New expiry date : {_date(ends_ms)}"]
    common.show(View("tokens", lines, [{"hmac": flags.hmac, "expires_ms": ends_ms}], {"dry_run": False}))


def _show_victim(common: Common, flags: _Flags) -> None:
    """Say which token would end.

    Raises:
        CommandError: there is none that the client may see.
    """
    hmac, period_ms = _decoded(flags.hmac), flags.expiry_time_period
    with common.admin() as admin:
        token = next((one for one in admin.describe_delegation_tokens() if one.hmac == hmac), None)
    if token is None:
        raise CommandError(
            "No token that you may see has this HMAC", hint="--describe --owner-principal shows tokens"
        )
    assert period_ms is not None
    when = "at once" if period_ms < 0 else f"in {period_ms} ms"
    lines = [f"Would end the token {token.token_id} of {token.owner} {when}."]
    rows = [{"hmac": flags.hmac, "expires_ms": token.expires_ms}]
    common.show(View("tokens", lines, rows, {"dry_run": True}))


def _describe(common: Common, flags: _Flags) -> None:
    owners = _principals(flags.owner_principal)
    of_whom = f"owners: {_listed(owners)}" if owners else "current user."
    # As Kafka's tool, which asks for the tokens of nobody where nobody is named.
    with common.admin() as admin:
        tokens = admin.describe_delegation_tokens(owners)
    lines = [
        f"Calling describe token operation for {of_whom}",
        f"Total number of tokens : {len(tokens)}",
        *_table(tokens),
    ]
    common.show(View("tokens", lines, [_row(token) for token in tokens]))
    if not owners and not compat_39():
        hint("no owner is named, so no token is shown: --owner-principal User:NAME names one")


def _say(common: Common, text: str) -> None:
    """Say what is about to be done, where the answer is text."""
    if common.output in (None, OutputFormat.TEXT, OutputFormat.TABLE):
        line(text)


def _principals(texts: Sequence[str]) -> list[Principal]:
    try:
        return [Principal.parse(text.strip()) for text in texts]
    except ValueError as error:
        raise CommandError(str(error), hint="as User:alice") from error


def _decoded(hmac: str | None) -> bytes:
    import base64

    assert hmac is not None
    try:
        return base64.b64decode(hmac + "=" * (-len(hmac) % 4), validate=True)
    except ValueError as error:
        raise CommandError("The HMAC is not in base64", hint="take it from --create or --describe") from error


def _listed(principals: Sequence[Principal]) -> str:
    return f"[{', '.join(map(str, principals))}]"


def _table(tokens: "Sequence[DelegationToken]") -> Iterator[str]:
    yield _cells(_COLUMNS)
    for token in tokens:
        dates = map(_date, (token.issued_ms, token.expires_ms, token.expires_latest_ms))
        who = str(token.owner), str(token.requester), _listed(token.renewers)
        yield ""
        yield _cells((token.token_id, token.password, *who, *dates))


def _cells(texts: Sequence[str]) -> str:
    return " ".join(text.ljust(width) for text, width in zip(texts, _WIDTHS, strict=True))


def _date(time_ms: int) -> str:
    """A time as Kafka's tool writes it: where the tool runs, without seconds."""
    from datetime import datetime

    try:
        return datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%Y-%m-%dT%H:%M")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


def _row(token: "DelegationToken") -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "hmac": token.password,
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(one) for one in token.renewers],
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "expires_latest_ms": token.expires_latest_ms,
    }
