"""pk-broker-api-versions: which requests each broker serves, as kafka-broker-api-versions.sh."""

from typing import TYPE_CHECKING, Any, Final

from pkafka.cli.kit.kafka_command import CommandError, failure
from pkafka.cli.kit.options import Common, command, connection_options
from pkafka.cli.kit.output import Table, View

if TYPE_CHECKING:
    from pkafka.clients.admin.results import BrokerInfo

# Brokers and controllers of KRaft say these to each other; no broker shows them to clients.
_CONTROLLER_ONLY: Final = frozenset({52, 53, 54, 59, 62, 63, 70, 73, 82})


@command("pk-broker-api-versions")
@connection_options
def main(common: Common) -> None:
    """Print the API versions of every broker."""
    from pkafka.clients.errors import ClientError

    with common.admin() as admin:
        found = admin.api_versions()
    lines: list[str] = []
    rows: list[dict[str, Any]] = []
    failures = 0
    for broker in sorted(found):
        versions = found[broker]
        if isinstance(versions, ClientError):
            failures += 1
            lines.append(f"{_broker_text(broker)} -> ERROR: {versions.message}")
            rows.append({**_broker_row(broker), "error": failure(versions), "apis": []})
            continue
        lines += [f"{_broker_text(broker)} -> (", ",\n".join(_api_lines(versions)), ")"]
        rows.append({**_broker_row(broker), "error": None, "apis": _api_rows(versions)})
    tables = [Table(rows, ("id", "host", "port", "rack", "error")), Table(_flat(rows))]
    common.show(View("brokers", lines, rows, tables=tables))
    if failures:
        raise CommandError(f"{failures} of {len(found)} brokers did not answer", kafka_status=0)


def _broker_text(broker: "BrokerInfo") -> str:
    rack = "null" if broker.rack is None else broker.rack
    return f"{broker.host}:{broker.port} (id: {broker.id} rack: {rack})"


def _broker_row(broker: "BrokerInfo") -> dict[str, Any]:
    return dict(broker._asdict())


def _api_lines(versions: dict[int, tuple[int, int]]) -> list[str]:
    lines = []
    for key in _keys(versions):
        if key not in versions:
            lines.append(f"\t{api_name(key)}({key}): UNSUPPORTED")
            continue
        low, high = versions[key]
        span = str(low) if low == high else f"{low} to {high}"
        usable = _usable(key, low, high)
        known = "" if usable is None else f" [usable: {usable}]"
        lines.append(f"\t{api_name(key)}({key}): {span}{known}")
    return lines


def _api_rows(versions: dict[int, tuple[int, int]]) -> list[dict[str, object]]:
    return [
        {
            "key": key,
            "name": api_name(key),
            "min": versions[key][0],
            "max": versions[key][1],
            "usable": _usable(key, *versions[key]),
        }
        for key in sorted(versions)
    ]


def _flat(brokers: list[dict[str, Any]]) -> list[dict[str, object]]:
    """One row per broker and request, for a table; a broker that did not answer has one without request."""
    nothing: dict[str, object] = dict.fromkeys(("key", "name", "min", "max", "usable"))
    return [{"broker": broker["id"], **each} for broker in brokers for each in broker["apis"] or [nothing]]


def _keys(versions: dict[int, tuple[int, int]]) -> list[int]:
    from pkafka.protocol.api import ApiKey

    return sorted({*versions, *(key for key in ApiKey if key not in _CONTROLLER_ONLY)})


def _usable(key: int, low: int, high: int) -> int | None:
    """The highest version that this client speaks too."""
    from pkafka.protocol import registry

    ours = registry.versions(key)
    usable = min(high, ours[-1]) if ours else -1
    return usable if usable >= low else None


def api_name(key: int) -> str:
    """The name of a request as Kafka writes it; UNKNOWN for one that came after 3.9."""
    from pkafka.protocol.api import ApiKey

    try:
        return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))
    except ValueError:
        return "UNKNOWN"
