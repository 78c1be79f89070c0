"""Records as HTTP requests: ``HttpSink``, one request a record or a batch."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from pkafka.connect.config_class import config_def_of, read_settings, setting
from pkafka.connect.config_def import ConfigValue, Importance, Password
from pkafka.connect.config_validators import in_range, one_of
from pkafka.connect.connector import SinkConnector, SinkTask
from pkafka.connect.connectors.http_client import Answer, ClientCredentials, HttpClient, Login
from pkafka.connect.connectors.http_requests import (
    CONTENT_TYPES,
    FORMATS,
    OF_ONE_RECORD,
    Entry,
    Fate,
    batches,
    body_maker,
    fate_of,
    joined,
    retry_after_ms,
    url_of,
)
from pkafka.connect.data.records import SinkRecord
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from pkafka.model import TopicPartition

log = logging.getLogger(__name__)

_NONE, _BASIC, _BEARER, _OAUTH = "none", "basic", "bearer", "oauth2"
_IGNORE, _FAIL, _DELETE = "ignore", "fail", "delete"
_NEEDED: Final = {
    _BASIC: ("auth.user",),
    _BEARER: ("auth.token",),
    _OAUTH: ("oauth2.token.url", "oauth2.client.id", "oauth2.client.secret"),
}
_SEEN_S: Final = "pkafka-connect"


def _is_url(name: str, value: Value) -> None:
    if value is not None and (urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc):
        raise ConfigError.of(name, value, "a URL that begins with http:// or https:// is expected")


def _are_headers(name: str, value: Value) -> None:
    for each in value or ():
        if not each.partition(":")[0].strip() or ":" not in each:
            raise ConfigError.of(name, value, "headers are given as Name: value")


@dataclass(frozen=True)
class HttpSettings:
    """The settings of :class:`HttpSinkConnector`."""

    url: str = setting(
        "http.url",
        "Where requests go. ${topic}, ${key}, ${partition} and ${offset} stand for those of the record.",
        validator=_is_url,
        importance=Importance.HIGH,
    )
    method: str = setting(
        "http.method", "The method of the requests.", default="POST", validator=one_of("POST", "PUT", "PATCH")
    )
    format: str = setting(
        "body.format",
        "What a value is sent as: JSON without its schema (json), text, or the bytes as they are (bytes, for"
        " ByteArrayConverter and texts).",
        default="json",
        validator=one_of(*FORMATS),
        importance=Importance.HIGH,
    )
    content_type: str = setting(
        "http.content.type", "The header Content-Type; left out: what fits the format.", default=""
    )
    headers: list[str] = setting(
        "http.headers",
        "More headers, as Name: value, with commas between them.",
        default="",
        validator=_are_headers,
    )
    sends_place: bool = setting(
        "http.record.headers",
        "Whether headers say where the (first) record comes from: Kafka-Topic, Kafka-Partition and Kafka-Offset. A"
        " server knows a record by them that it gets twice.",
        default=False,
    )
    batch_records: int = setting(
        "batch.max.records", "How many records one request has at most.", default=1, validator=in_range(1)
    )
    batch_bytes: int = setting(
        "batch.max.bytes",
        "How many bytes of values one request has at most; a value that is larger goes alone.",
        default=1024 * 1024,
        validator=in_range(1),
    )
    batch_shape: str = setting(
        "batch.shape",
        "How values stand in a request when batch.max.records is more than 1: as an array of JSON, or as lines.",
        default="array",
        validator=one_of("array", "lines"),
    )
    on_null: str = setting(
        "behavior.on.null.values",
        "What becomes of a record without a value: ignore, fail (a dead letter, if errors are tolerated), or delete:"
        " a DELETE to its URL.",
        default=_IGNORE,
        validator=one_of(_IGNORE, _FAIL, _DELETE),
    )
    auth: str = setting(
        "auth.type",
        "Who asks: nobody (none), a user (basic), a token (bearer), or tokens that are given to a client (oauth2).",
        default=_NONE,
        validator=one_of(_NONE, _BASIC, _BEARER, _OAUTH),
    )
    user: str | None = setting("auth.user", "For basic: the user.", default=None)
    password: Password | None = setting("auth.password", "For basic: the password.", default=None)
    token: Password | None = setting("auth.token", "For bearer: the token.", default=None)
    token_url: str | None = setting(
        "oauth2.token.url", "For oauth2: where tokens are given.", default=None, validator=_is_url
    )
    client_id: str | None = setting("oauth2.client.id", "For oauth2: the client.", default=None)
    client_secret: Password | None = setting("oauth2.client.secret", "For oauth2: its secret.", default=None)
    scope: str | None = setting("oauth2.scope", "For oauth2: what is asked for.", default=None)
    ca_file: str | None = setting(
        "ssl.ca.file",
        "Certificates in PEM that servers are trusted by; left out: the usual ones.",
        default=None,
    )
    timeout_ms: int = setting(
        "request.timeout.ms", "How long the server may be silent.", default=30_000, validator=in_range(1)
    )
    connect_timeout_ms: int = setting(
        "connect.timeout.ms", "How long a connection may take.", default=10_000, validator=in_range(1)
    )
    retries: int = setting(
        "max.retries",
        "How often a request is sent again before the task fails, when nobody answers or the status is 408, 425, 429"
        " or 5xx.",
        default=10,
        validator=in_range(0),
    )
    backoff_ms: int = setting(
        "retry.backoff.ms",
        "How long to wait before that, unless the server says so (Retry-After).",
        default=3000,
        validator=in_range(0),
    )
    backoff_max_ms: int = setting(
        "retry.after.max.ms", "How much of Retry-After counts.", default=300_000, validator=in_range(0)
    )


CONFIG: Final = config_def_of(HttpSettings)


class HttpSinkTask(SinkTask):
    """Sends records, one request after the other."""

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings; the first request connects.

        Raises:
            ConnectError: httpx is not installed.
        """
        self._settings = settings = read_settings(HttpSettings, configs)
        self._client = HttpClient(
            settings.timeout_ms, settings.connect_timeout_ms, settings.ca_file, _login(settings)
        )
        self._body = body_maker(settings.format)
        self._shape = settings.batch_shape if settings.batch_records > 1 else "single"
        self._headers = {
            "User-Agent": _SEEN_S,
            **{
                name.strip(): value.strip()
                for name, _, value in (each.partition(":") for each in settings.headers)
            },
        }
        self._failures = 0
        self._done: dict[tuple[str | None, int | None], int] = {}
        """Behind what was sent of records that come again, because a later one was not."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Send records.

        Raises:
            RetriableError: the server does not answer for now; what it has taken is not sent again.
            ConnectError: it refuses a record, and errors are not tolerated; or it lets nobody in.
        """
        settings = self._settings
        fresh = [each for each in records if each.original_offset >= self._done.get(_place(each), -1)]
        entries = map(self._entry, fresh)
        try:
            for batch in batches(entries, settings.batch_records, settings.batch_bytes):
                self._send(batch)
                self._failures = 0
        except RetriableError as error:
            self._failures += 1
            if self._failures > settings.retries:
                raise ConnectError(f"{error}, in {self._failures} tries") from error
            raise
        self._done.clear()

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what was sent of partitions that go elsewhere."""
        for each in partitions:
            self._done.pop((each.topic, each.partition), None)

    def stop(self) -> None:
        """Close the connections."""
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    # -- one request --

    def _entry(self, record: SinkRecord) -> Entry:
        """What is sent of a record. Nothing is reported yet: earlier records come first."""
        try:
            url = url_of(self._settings.url, record)
            if record.value is not None:
                return Entry(record, url, self._body(record))
        except DataError as error:
            return Entry(record, error=error)
        if self._settings.on_null == _DELETE:
            return Entry(record, url)
        if self._settings.on_null == _IGNORE:
            return Entry(record, is_ignored=True)
        place = f"offset {record.offset} of {record.topic}-{record.partition}"
        return Entry(record, error=DataError(f"The record at {place} has no value"))

    def _send(self, batch: Sequence[Entry]) -> None:
        """Send what belongs together, and note that it is done, whatever that means."""
        first = batch[0]
        records = [each.record for each in batch]
        if first.error is not None:
            self._report(records, first.error)
        elif not first.is_ignored:
            answer = self._answer(batch)
            fate = fate_of(answer.status, len(batch), is_deletion=first.body is None)
            if fate is Fate.SPLIT:
                middle = len(batch) // 2
                self._send(batch[:middle])
                self._send(batch[middle:])
            elif fate is not Fate.DONE:
                self._fail(
                    records, fate, answer, f"{first.url} answers {answer.status} {answer.text}".strip()
                )
        for each in records:
            self._done[_place(each)] = each.original_offset + 1

    def _fail(self, records: Sequence[SinkRecord], fate: Fate, answer: Answer, said: str) -> None:
        settings = self._settings
        if fate is Fate.AGAIN:
            wait_ms = retry_after_ms(answer.headers.get("Retry-After"), datetime.now(UTC))
            self.context.timeout(
                settings.backoff_ms if wait_ms is None else min(wait_ms, settings.backoff_max_ms)
            )
            raise RetriableError(said)
        if fate is Fate.NOT_LET_IN:
            raise ConnectError(said)
        self._report(records, ConnectError(said))

    def _answer(self, batch: Sequence[Entry]) -> Answer:
        first = batch[0]
        headers = dict(self._headers)
        if self._settings.sends_place:
            headers |= {
                "Kafka-Topic": str(first.record.original_topic),
                "Kafka-Partition": str(first.record.original_partition),
                "Kafka-Offset": str(first.record.original_offset),
            }
        bodies = [each.body for each in batch if each.body is not None]
        try:
            if not bodies:
                return self._client.send("DELETE", first.url, headers, None)
            headers["Content-Type"] = self._settings.content_type or CONTENT_TYPES[self._settings.format]
            return self._client.send(self._settings.method, first.url, headers, joined(bodies, self._shape))
        except RetriableError:
            self.context.timeout(self._settings.backoff_ms)
            raise

    def _report(self, records: Sequence[SinkRecord], error: ConnectError) -> None:
        """Report records, if errors are tolerated.

        Raises:
            ConnectError: they are not.
        """
        reporter = self.context.errant_records
        if reporter is None:
            raise error
        for each in records:
            reporter.report(each, error)


def _place(record: SinkRecord) -> tuple[str | None, int | None]:
    return record.original_topic, record.original_partition


def _login(settings: HttpSettings) -> Login | None:
    if settings.auth == _BASIC:
        assert settings.user is not None
        return Login.basic(settings.user, settings.password)
    if settings.auth == _BEARER:
        assert settings.token is not None
        return Login(f"Bearer {settings.token.value}")
    if settings.auth == _OAUTH:
        assert settings.token_url is not None
        assert settings.client_id is not None
        assert settings.client_secret is not None
        return ClientCredentials(
            settings.token_url, settings.client_id, settings.client_secret, settings.scope
        )
    return None


class HttpSinkConnector(SinkConnector):
    """``HttpSink``: records as requests to one server."""

    CONFIG = CONFIG
    task_class = HttpSinkTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings."""
        self._configs = dict(configs)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """As many as are allowed."""
        return [self._configs] * tasks_max

    def validate(self, configs: Mapping[str, str]) -> list[ConfigValue]:
        """Look at settings, also at those that go together."""
        values = CONFIG.validate(configs)
        found = {each.name: each for each in values}
        for name in _NEEDED.get(str(found["auth.type"].value), ()):
            if not found[name].value:
                found[name].errors.append(f"auth.type={found['auth.type'].value} needs it.")
        records_max = found["batch.max.records"].value
        if isinstance(records_max, int) and records_max > 1:
            url, shape = str(found["http.url"].value), found["batch.shape"].value
            varying = [each for each in OF_ONE_RECORD if each in url]
            if varying:
                found["batch.max.records"].errors.append(
                    f"{varying[0]} in http.url wants a request for each record."
                )
            if found["body.format"].value != "json" and shape != "lines":
                found["batch.shape"].errors.append("Only values of JSON can be an array.")
            if found["body.format"].value == "bytes":
                found["batch.max.records"].errors.append("Bytes cannot be told apart in one request.")
        return values

    def alter_offsets(self, _configs: object, _offsets: object) -> bool:
        """Take any: a consumer reads from wherever it is told."""
        return True
