"""Copies topics to another cluster, as kafka-mirror-maker.sh does: streams that share one producer.

Offsets are committed after the target has acknowledged what was read up to them, so whatever happens to this process,
the next one begins no later than behind the last record that arrived.
"""

import logging
import re
import threading
from collections.abc import Mapping
from typing import Final, NamedTuple

from pkafka.clients.consumer import ConsumerRebalanceListener
from pkafka.clients.producer import Producer
from pkafka.tools.mirroring.handlers import MessageHandler
from pkafka.tools.mirroring.routes import rules_of
from pkafka.tools.mirroring.sending import Sending
from pkafka.tools.mirroring.settings import consumer_settings, producer_settings
from pkafka.tools.mirroring.statistics import Statistics
from pkafka.tools.mirroring.stream import Stream

log = logging.getLogger("kafka.tools.MirrorMaker$")

_AT_ONCE_S: Final = 0.0


class Mirror(NamedTuple):
    """What is to be copied, and how.

    Args:
        consumer, producer: settings of the clients, as the user gave them.
        include: whole names of topics.
        streams: how many consumers.
        commit_interval_ms: the time between two commits of a stream.
        aborts_on_failure: whether the first record that cannot be sent stops the mirror.
        keeps_partitions: whether records stay in the partition of their number.
        handler, listener: of the user's.
    """

    consumer: Mapping[str, object]
    producer: Mapping[str, object]
    include: re.Pattern[str]
    streams: int = 1
    commit_interval_ms: int = 60_000
    aborts_on_failure: bool = True
    keeps_partitions: bool = False
    handler: MessageHandler | None = None
    listener: ConsumerRebalanceListener | None = None


class MirrorMaker:
    """Runs a mirror.

    Args:
        mirror: what to copy.

    Raises:
        ConfigError: a setting of a client is wrong.
    """

    def __init__(self, mirror: Mirror) -> None:
        self.statistics = Statistics()
        self.failure: Exception | None = None
        """What stopped it, if not :meth:`stop`."""
        rules = rules_of(
            mirror.producer,
            mirror.consumer,
            has_handler=mirror.handler is not None,
            keeps_partitions=mirror.keeps_partitions,
        )
        self._ended = threading.Event()
        self._producer = Producer(producer_settings(mirror.producer))
        sending = Sending(
            self._producer,
            rules,
            self.statistics,
            handler=mirror.handler,
            aborts=mirror.aborts_on_failure,
        )
        self._sending = sending
        self._streams: list[Stream] = []
        try:
            for number in range(mirror.streams):
                self._streams.append(
                    Stream(
                        consumer_settings(mirror.consumer, number),
                        mirror.include,
                        sending,
                        commit_interval_ms=mirror.commit_interval_ms,
                        listener=mirror.listener,
                        committed=self.statistics.committed,
                    )
                )
        except Exception:
            self._producer.close(_AT_ONCE_S)
            raise
        self._threads = [
            threading.Thread(target=self._run, args=(each,), name=f"mirrormaker-thread-{number}", daemon=True)
            for number, each in enumerate(self._streams)
        ]

    def start(self) -> None:
        """Begin to copy."""
        for each in self._threads:
            each.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until a stream has ended, at most ``timeout_s``; whether one has."""
        return self._ended.wait(timeout_s)

    def close(self) -> None:
        """Stop all streams, commit what has arrived, and close the producer."""
        for stream in self._streams:
            stream.stop()
        if self.failure is not None:
            # What is under way counts as not sent, so that no stream commits it or waits for it.
            self._sending.abandon(self.failure)
            self._producer.close(_AT_ONCE_S)
        for thread in self._threads:
            thread.join()
        self._producer.close()

    def _run(self, stream: Stream) -> None:
        try:
            stream.run()
        except Exception as error:  # noqa: BLE001 - the caller gets it
            if self.failure is None:
                self.failure = error
                log.error(
                    "%s exited abnormally, stopping the whole mirror maker.", threading.current_thread().name
                )
        finally:
            self._ended.set()
