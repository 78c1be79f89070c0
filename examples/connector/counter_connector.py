"""A source connector to begin with: each task counts, and goes on where it stopped.

connector.class=Counter
topic=numbers
tasks.max=2
"""

from collections.abc import Mapping, Sequence

from pkafka.connect.config_def import ConfigDef, ConfigType, Importance
from pkafka.connect.config_validators import in_range
from pkafka.connect.connector import SourceConnector, SourceTask
from pkafka.connect.data.records import SourceRecord
from pkafka.connect.data.schema import Schema


class CounterTask(SourceTask):
    """Counts up, one step each ``interval.ms``."""

    def start(self, configs: Mapping[str, str]) -> None:
        """Go on behind the last number that is in Kafka."""
        parsed = CounterConnector.CONFIG.parse(configs)
        self._topic, self._pause_s = parsed["topic"], parsed["interval.ms"] / 1000
        # The partition names what is read: here, which of the tasks counts.
        self._partition = {"counter": configs["counter"]}
        stored = self.context.offset_reader.offset(self._partition)
        self._next = 0 if stored is None else stored["number"] + 1

    def poll(self) -> Sequence[SourceRecord] | None:
        """The next number. A poll may wait; it should return within a second or so."""
        if self.context.wait(self._pause_s):
            return None
        number, self._next = self._next, self._next + 1
        return [
            SourceRecord(
                self._topic,
                partition=None,
                key_schema=Schema.STRING,
                key=self._partition["counter"],
                value_schema=Schema.INT64,
                value=number,
                source_partition=self._partition,
                source_offset={"number": number},
            )
        ]

    def stop(self) -> None:
        """Nothing to close."""


class CounterConnector(SourceConnector):
    """Counts in as many tasks as it may have."""

    VERSION = "1.0"
    CONFIG = (
        ConfigDef()
        .define("topic", ConfigType.STRING, importance=Importance.HIGH, documentation="Where the numbers go.")
        .define(
            "interval.ms",
            ConfigType.LONG,
            1000,
            in_range(0),
            Importance.LOW,
            "How long a task waits between two.",
        )
    )
    task_class = CounterTask

    def start(self, configs: Mapping[str, str]) -> None:
        """Keep the settings; they are checked already."""
        self._configs = dict(configs)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """One configuration for each task."""
        return [{**self._configs, "counter": str(number)} for number in range(tasks_max)]
