"""pk-metrics and pk-jmx: the metrics of a broker under the names of Kafka's JMX beans, as kafka-jmx.sh prints them."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import CommandError
from pkafka.cli.kit.metrics_config import metrics_config_option, page_reader
from pkafka.cli.kit.options import command, parse_duration_ms, timeout_option
from pkafka.cli.kit.output import OutputFormat, View, line, raw, show, to_json
from pkafka.java.text import parse_boolean, trim

if TYPE_CHECKING:
    from pkafka.tools.cluster.jmx_page import ClusterMetrics, MetricsPage

_URL: Final = "http://localhost:9999"
_FORMATS: Final = ("original", "properties", "csv", "tsv")
_OUTPUTS: Final = [each.value for each in (OutputFormat.TEXT, OutputFormat.JSON, OutputFormat.JSONL)]
_WAIT_S: Final = 0.1
_HINT: Final = "a broker serves its metrics where pkafka.metrics.port says; without it, it does not"


_JMX_URL: Final = "service:jmx:rmi:///jndi/rmi://:9999/jmxrmi"
_OF_JMX: Final = re.compile(
    r"service:jmx:rmi:(?://[^/]*)?/jndi/rmi://(?P<host>[^/]*?)(?::(?P<port>[0-9]+))?/jmxrmi"
)

F = TypeVar("F", bound=Callable[..., Any])


class _Asked(NamedTuple):
    """What to look at, and how to write it."""

    object_names: tuple[str, ...]
    attributes: str | None
    reporting_interval: int
    date_format: str | None
    report_format: str
    one_time: str
    wait: bool

    @property
    def wanted(self) -> list[str]:
        return [trim(each) for each in self.attributes.split(",")] if self.attributes else []

    @property
    def interval_s(self) -> float | None:
        """None: look once."""
        is_once = parse_boolean(self.one_time) or self.reporting_interval < 0
        return None if is_once else self.reporting_interval / 1_000


def _report_options(function: F) -> F:
    """Add the flags of kafka-jmx.sh, but those that say how to reach the broker."""
    for option in reversed(
        (
            click.option(
                "--object-name",
                "object_names",
                multiple=True,
                metavar="NAME",
                help="A bean, or a pattern of beans (kafka.log:type=Log,*); repeat for more. All when left out.",
            ),
            click.option("--attributes", metavar="A,B", help="Attributes to show; all when left out."),
            click.option(
                "--reporting-interval",
                type=int,
                default=2_000,
                metavar="MS",
                help="Time between two looks in ms (2000); -1: look once.",
            ),
            click.option(
                "--date-format", metavar="FORMAT", help="Of the time, as in java.text.SimpleDateFormat."
            ),
            click.option(
                "--report-format", default="original", metavar="|".join(_FORMATS), help="Form of the text."
            ),
            click.option(
                "--one-time",
                is_flag=False,
                flag_value="true",
                default="false",
                metavar="[BOOLEAN]",
                help="Look once.",
            ),
            click.option(
                "--wait",
                is_flag=True,
                help="Wait until all beans are there, at most as long as --timeout says.",
            ),
        )
    ):
        function = option(function)
    return function


@command("pk-metrics")
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="URL",
    help=f"Where the broker serves its metrics; {_URL} when left out. Repeat for the sum over several brokers.",
)
@click.option("--jmx-url", metavar="URL", hidden=True)
@metrics_config_option
@_report_options
@timeout_option
@click.option(
    "--output",
    type=click.Choice([*_OUTPUTS, OutputFormat.PROMETHEUS.value]),
    help="Format of what is shown; default: Kafka's text. JSON and Prometheus's text are of one look.",
)
def main(
    urls: tuple[str, ...],
    jmx_url: str | None,
    metrics_config: str | None,
    timeout: str,
    output: str | None,
    **asked: Any,  # noqa: ANN401
) -> None:
    """Print the metrics of a broker, named as Kafka's JMX beans are.

    With several brokers the command adds numbers up, and leaves out what cannot be added, as percentiles.
    A broker of pkafka has no JVM; it serves the beans over HTTP when pkafka.metrics.port is set.
    """
    from pkafka.tools.cluster.jmx_page import MetricsPage

    timeout_ms = parse_duration_ms(timeout)
    given = urls or ((jmx_url,) if jmx_url else (_URL,))
    reader = page_reader(metrics_config)
    pages = [MetricsPage(_address(each), timeout_s=timeout_ms / 1_000, reader=reader) for each in given]
    _show(pages, _Asked(**asked), timeout_ms, OutputFormat(output) if output else OutputFormat.TEXT)


@command("pk-jmx")
@click.option(
    "--jmx-url",
    default=_JMX_URL,
    metavar="URL",
    help="Host and port of the broker's page of metrics: as a URL of JMX, whose port JMX_PORT is, or of HTTP."
    f" {_JMX_URL} when left out.",
)
@_report_options
@timeout_option
@click.option(
    "--jmx-auth-prop",
    metavar="USER=PASSWORD",
    help="Log in, as kafka-jmx.sh does; others on this machine see it: better --metrics-config.",
)
@click.option("--jmx-ssl-enable", default="false", metavar="BOOLEAN", help="Ask over HTTPS.")
@metrics_config_option
def jmx_main(
    jmx_url: str,
    timeout: str,
    jmx_auth_prop: str | None,
    jmx_ssl_enable: str,
    metrics_config: str | None,
    **asked: Any,  # noqa: ANN401
) -> None:
    """Print the metrics of a broker, as kafka-jmx.sh does.

    pk-metrics with the flags of Kafka's tool: a broker of pkafka has no JVM, and serves its beans over HTTP at the port
    that JMX_PORT or pkafka.metrics.port says.
    """
    from pkafka.tools.cluster.jmx_page import MetricsPage

    reader = page_reader(metrics_config)
    if jmx_auth_prop is not None:
        user, equals, password = jmx_auth_prop.partition("=")
        if not equals:
            raise click.UsageError("--jmx-auth-prop needs USER=PASSWORD")
        reader = reader._replace(login=(user, password))
    timeout_ms = parse_duration_ms(timeout)
    url = _address(jmx_url, is_secure=parse_boolean(jmx_ssl_enable))
    _show(
        [MetricsPage(url, timeout_s=timeout_ms / 1_000, reader=reader)],
        _Asked(**asked),
        timeout_ms,
        OutputFormat.TEXT,
    )


def _show(pages: "Sequence[MetricsPage]", asked: _Asked, timeout_ms: int, form: OutputFormat) -> None:
    from pkafka.tools.cluster.jmx_page import (
        BadQueryError,
        ClusterMetrics,
        MetricsUnavailableError,
        date_text,
    )

    try:
        date_text(asked.date_format, 0)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    page, names = ClusterMetrics(pages), asked.object_names
    try:
        if asked.wait:
            _wait_for(page, names, timeout_ms)
        if form is OutputFormat.PROMETHEUS:
            if len(pages) > 1:
                raise click.UsageError("--output prometheus is of one broker")
            raw(pages[0].prometheus().encode())
        elif form is OutputFormat.JSON:
            show(View("beans", (), _chosen(page.beans(names), asked.wanted)), form)
        else:
            report = _jsonl if form is OutputFormat.JSONL else _REPORTS.get(asked.report_format, _original)
            _report(page, names, asked.wanted, report, asked.date_format, asked.interval_s)
    except BadQueryError as error:
        raise click.UsageError(str(error)) from None
    except MetricsUnavailableError as error:
        raise CommandError(str(error), hint=_HINT, status=ExitStatus.UNREACHABLE) from None


def _address(given: str, *, is_secure: bool = False) -> str:
    """The URL of a page of metrics: as it is, or at the host and port of a URL of JMX."""
    scheme = "https" if is_secure else "http"
    of_jmx = _OF_JMX.fullmatch(given)
    if of_jmx is not None and of_jmx["port"]:
        return f"{scheme}://{of_jmx['host'] or 'localhost'}:{of_jmx['port']}"
    if not given.startswith(("http://", "https://")):
        raise click.UsageError(f"{given}: a broker of pkafka has no JVM; give its metrics page: --url {_URL}")
    return given


def _chosen(beans: Sequence[Mapping[str, Any]], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Beans with the attributes wanted of them, without those that have none."""
    kept = [
        {
            "name": bean["name"],
            "attributes": {
                key: value for key, value in bean.items() if key != "name" and (not wanted or key in wanted)
            },
        }
        for bean in beans
    ]
    return [bean for bean in kept if bean["attributes"]]


def _wait_for(page: "ClusterMetrics", names: Sequence[str], timeout_ms: int) -> None:
    """Wait until a broker answers and has every bean."""
    from pkafka.tools.cluster.jmx_page import MetricsUnavailableError

    if not names or any("*" in name or "?" in name for name in names):
        raise click.UsageError("--wait needs --object-name without patterns")
    deadline = time.monotonic() + timeout_ms / 1_000
    while True:
        try:
            missing = set(names) - {bean["name"] for bean in page.beans(names)}
        except MetricsUnavailableError:
            if time.monotonic() >= deadline:
                raise
            missing = set(names)
        if not missing:
            return
        if time.monotonic() >= deadline:
            text = ", ".join(sorted(missing))
            raise CommandError(
                f"Could not find all requested object names after {timeout_ms} ms. Missing {text}"
            )
        time.sleep(_WAIT_S)


_Values = Mapping[str, object]
_Report = Callable[[str, _Values, bool], None]


def _report(
    page: "ClusterMetrics",
    names: Sequence[str],
    wanted: Sequence[str],
    report: _Report,
    date_format: str | None,
    interval_s: float | None,
) -> None:
    """Look and print, again and again with an interval; a look that misses something is not printed."""
    from pkafka.tools.cluster.jmx_page import attributes_of, date_text

    expected: list[str] | None = None
    while True:
        began = time.monotonic()
        values = attributes_of(page.beans(names), wanted)
        if not values and expected is None:
            raise CommandError(f"No matched attributes for the queried objects [{', '.join(names)}].")
        is_first = expected is None
        expected = list(values) if expected is None else expected
        if all(key in values for key in expected):
            at = date_text(date_format, int(time.time() * 1_000))
            report(at, {key: values[key] for key in expected}, is_first)
        if interval_s is None:
            return
        time.sleep(max(0.0, began + interval_s - time.monotonic()))


def _original(at: str, values: _Values, is_first: bool) -> None:
    from pkafka.tools.cluster.jmx_page import value_text

    if is_first:
        line(",".join(f'"{key}"' for key in ("time", *values)))
    line(",".join([at, *map(value_text, values.values())]))


def _lines(form: str) -> _Report:
    def report(at: str, values: _Values, is_first: bool) -> None:
        from pkafka.tools.cluster.jmx_page import value_text

        line(form.format("time", at))
        for key, value in values.items():
            line(form.format(key, value_text(value)))

    return report


def _jsonl(at: str, values: _Values, is_first: bool) -> None:
    line(to_json({"time": int(at) if at.isdecimal() else at, "attributes": dict(values)}))


_REPORTS: Final[Mapping[str, _Report]] = {
    "original": _original,
    "properties": _lines("{}={}"),
    "csv": _lines('{},"{}"'),
    "tsv": _lines("{}\t{}"),
}


if __name__ == "__main__":
    main()
