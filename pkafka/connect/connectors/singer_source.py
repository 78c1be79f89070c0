"""What a Singer tap extracts, as records: ``SingerSource``, with the tap's state as the source offset.

A tap is a program that reads a source, from the state on that it is given, and ends. It is run again and again; each
run begins with the state that the one before it said last. After a restart that is the last state whose records are all
in Kafka, so records may come twice, and none is lost.
"""

import json
import logging
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pkafka.connect.config_class import config_def_of, read_settings, setting
from pkafka.connect.config_def import ConfigValue, Importance, Password
from pkafka.connect.config_validators import in_range, one_of
from pkafka.connect.connector import SourceConnector, SourcePlace, SourceTask
from pkafka.connect.connectors.singer_messages import STATE, TAP, TapOutput
from pkafka.connect.connectors.tap_process import TapProcess
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.data.types import Value
from pkafka.connect.errors import ConfigError, ConnectError

log = logging.getLogger(__name__)

_WAIT_S: Final = 0.5
"""How long a poll waits for the tap."""


def _is_command(name: str, value: Value) -> None:
    try:
        words = shlex.split(value or "")
    except ValueError as error:
        raise ConfigError.of(name, value, f"the words cannot be told apart: {error}") from error
    if not words:
        raise ConfigError.of(name, value, "a command is expected")


def _is_object(name: str, value: Value) -> None:
    if value is None:
        return
    text = value.value if isinstance(value, Password) else value
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError.of(name, value, f"it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError.of(name, value, "an object of JSON is expected")


@dataclass(frozen=True)
class SingerSettings:
    """The settings of :class:`SingerSourceConnector`."""

    command: str = setting(
        "tap.command",
        "The command of the tap with its arguments, split as a shell would; no shell is asked. The options for its"
        " files (--config, --catalog, --state) are added.",
        validator=_is_command,
        importance=Importance.HIGH,
    )
    config: Password | None = setting(
        "tap.config",
        "The tap's own settings, as an object of JSON.",
        default=None,
        validator=_is_object,
        importance=Importance.HIGH,
    )
    config_file: str | None = setting(
        "tap.config.file", "A file that has them, in the place of tap.config.", default=None
    )
    catalog: str | None = setting(
        "tap.catalog",
        "The catalog, as an object of JSON: which streams are extracted, and how. A tap prints it with --discover.",
        default=None,
        validator=_is_object,
    )
    catalog_file: str | None = setting(
        "tap.catalog.file", "A file that has it, in the place of tap.catalog.", default=None
    )
    catalog_option: str = setting(
        "tap.catalog.option",
        "The option by which the tap takes its catalog; older ones know --properties.",
        default="--catalog",
        validator=one_of("--catalog", "--properties"),
        importance=Importance.LOW,
    )
    name: str | None = setting(
        "tap.name",
        "The name under which its state is kept; left out: that of the command, without its directory.",
        default=None,
        importance=Importance.LOW,
    )
    topic_prefix: str = setting(
        "topic.prefix",
        "Before the name of a stream, for the name of its topic.",
        default="",
        importance=Importance.HIGH,
    )
    has_schemas: bool = setting(
        "record.schemas",
        "Whether records are structs, by the tap's schemas; else they are objects of JSON without a schema.",
        default=True,
    )
    interval_ms: int = setting(
        "tap.interval.ms",
        "How long after a run of the tap the next one begins.",
        default=300_000,
        validator=in_range(0),
    )
    silence_max_ms: int = setting(
        "tap.silence.max.ms",
        "For how long a tap may write nothing, neither messages nor lines of its log, before it is ended and the task"
        " fails; 0: for ever.",
        default=1_800_000,
        validator=in_range(0),
    )

    @property
    def words(self) -> list[str]:
        """The command."""
        return shlex.split(self.command)

    @property
    def tap(self) -> str:
        """The name of the tap."""
        return self.name or Path(self.words[0]).name

    def files(self, state: str | None) -> dict[str, str]:
        """What the tap's files have, by their options.

        Raises:
            ConnectError: one cannot be read, or is not JSON.
        """
        given = "{}" if self.config is None else self.config.value
        files = {"--config": _text("tap.config.file", self.config_file, given)}
        catalog = _text("tap.catalog.file", self.catalog_file, self.catalog or "")
        if catalog:
            files[self.catalog_option] = catalog
        if state is not None:
            files["--state"] = state
        return files


def _text(key: str, path: str | None, text: str) -> str:
    if path is None:
        return text
    try:
        found = Path(path).read_text("utf-8")
        _is_object(key, found)
    except OSError as error:
        raise ConnectError(f"{path} ({key}) cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, ConfigError) as error:
        raise ConnectError(f"{path} ({key}) is no object of JSON") from error
    return found


CONFIG: Final = config_def_of(SingerSettings)


class SingerSourceTask(SourceTask):
    """Runs the tap, and reads what it writes.

    Args:
        clock: seconds, for when the next run begins.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tap: TapProcess | None = None
        self._failure: ConnectError | None = None
        """Why the task is to end, once the records before it are sent."""

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings, and the state that is stored.

        Raises:
            ConnectError: a file cannot be read.
        """
        self._settings = settings = read_settings(SingerSettings, configs)
        stored = self.context.offset_reader.offset({TAP: settings.tap}) or {}
        state = stored.get(STATE)
        settings.files(None)
        self._output = TapOutput(
            settings.tap,
            settings.topic_prefix,
            has_schemas=settings.has_schemas,
            state=None if state is None else str(state),
        )
        self._due_s = self._clock()

    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records of the tap, which is started when it is time.

        Raises:
            ConnectError: it cannot be run, failed, hangs, or wrote what is no message of Singer.
        """
        if self._failure is not None:
            raise self._failure
        tap = self._tap or self._started()
        if tap is None:
            return None
        try:
            for line in tap.read(_WAIT_S):
                self._output.take(line)
            self._look_after(tap)
        except ConnectError as error:
            self._failure = error
            self._end_tap()
        records = self._output.take_ready()
        if self._failure is not None and not records:
            raise self._failure
        return records or None

    def stop(self) -> None:
        """End the tap."""
        self._end_tap()

    def _started(self) -> TapProcess | None:
        """The tap, as soon as it is due."""
        wait_s = self._due_s - self._clock()
        if wait_s > 0:
            self.context.wait(min(wait_s, 1.0))
            return None
        settings = self._settings
        self._output.begin()
        self._tap = TapProcess(settings.tap, settings.words, settings.files(self._output.state), self._clock)
        return self._tap

    def _look_after(self, tap: TapProcess) -> None:
        """See whether the tap has ended, or hangs."""
        name = self._settings.tap
        if tap.status is not None:
            self._end_tap()
            self._output.end()
            self._due_s = self._clock() + self._settings.interval_ms / 1000
            if tap.status:
                said = f": {tap.last_words}" if tap.last_words else ""
                raise ConnectError(f"The tap {name} ended with status {tap.status}{said}")
        elif 0 < self._settings.silence_max_ms <= tap.silent_s * 1000:
            raise ConnectError(
                f"The tap {name} wrote nothing for {self._settings.silence_max_ms} ms (tap.silence.max.ms), and was"
                " ended"
            )

    def _end_tap(self) -> None:
        tap, self._tap = self._tap, None
        if tap is not None:
            tap.end()


class SingerSourceConnector(SourceConnector):
    """``SingerSource``: what one tap extracts."""

    CONFIG = CONFIG
    task_class = SingerSourceTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Take the settings."""
        self._configs = dict(configs)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """One: a tap cannot be split."""
        return [self._configs]

    def validate(self, configs: Mapping[str, str]) -> list[ConfigValue]:
        """Look at settings, also at those that exclude each other."""
        values = CONFIG.validate(configs)
        found = {each.name: each for each in values}
        for text in ("tap.config", "tap.catalog"):
            if found[text].value is not None and found[f"{text}.file"].value is not None:
                found[text].errors.append(f"Either {text} or {text}.file can be set.")
        return values

    def supports_exactly_once(self, configs: Mapping[str, str]) -> bool:
        """No: a tap that goes on from a state may extract again what it extracted before."""
        return False

    def alter_offsets(
        self, configs: Mapping[str, str], offsets: Mapping[int, tuple[SourcePlace | None, SourcePlace | None]]
    ) -> bool:
        """Look at a state that an operator wants to set.

        Raises:
            ConnectError: it is none.
        """
        for partition, offset in offsets.values():
            if partition is None or set(partition) != {TAP}:
                raise ConnectError(f"A partition of this connector has the key '{TAP}', and no other")
            if offset is not None:
                _check_state(offset)
        return True


def _check_state(offset: Mapping[str, Any]) -> None:
    text = offset.get(STATE)
    if set(offset) != {STATE} or not isinstance(text, str):
        raise ConnectError(
            f"An offset of this connector has the key '{STATE}': the tap's state as a text of JSON"
        )
    try:
        json.loads(text)
    except ValueError as error:
        raise ConnectError(f"The state is not JSON: {error}") from error
