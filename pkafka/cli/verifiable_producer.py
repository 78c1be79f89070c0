"""pk-verifiable-producer: send counting numbers and tell what became of each, as kafka-verifiable-producer.sh."""

import signal
from collections.abc import Mapping
from queue import SimpleQueue
from threading import Thread
from types import FrameType
from typing import TYPE_CHECKING

import click

from pkafka.cli.kit.client_options import broker_list_option, config_option, one_server_flag, settle_producer
from pkafka.cli.kit.exit_status import ExitStatus, effective
from pkafka.cli.kit.numbers import LONG
from pkafka.cli.kit.options import bootstrap_option, client_properties, command, require_brokers

if TYPE_CHECKING:
    from pkafka.clients.producer import Producer


@command("pk-verifiable-producer", kafka_failure=0, argparse4j=True)
@click.option("--topic", metavar="NAME", required=True, help="Where the records go.")
@bootstrap_option
@broker_list_option
@click.option(
    "--max-messages",
    type=int,
    default=-1,
    metavar="N",
    help="How many records to send; -1: until a signal ends the command.",
)
@click.option(
    "--throughput", type=int, default=-1, metavar="N", help="Send at most about so many records a second."
)
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "-1"]),
    default="-1",
    help="How many replicas acknowledge (-1: all).",
)
@config_option("producer", "Properties file; wins over flags.")
@click.option(
    "--message-create-time", type=LONG, default=-1, metavar="MS", help="Timestamp of the first record."
)
@click.option("--value-prefix", type=int, metavar="N", help="Stands before every value, with a dot.")
@click.option("--repeating-keys", type=int, metavar="N", help="Keys from 0 to below N, over and over.")
def main(**flags: object) -> int:
    """Send counting numbers, and print what became of each of them as JSON."""
    properties = _properties(flags)
    from pkafka.cli.kit.verifiable_events import emit
    from pkafka.clients.producer import Producer
    from pkafka.tools.verifiable import Load, produce

    created, records, per_second = flags["message_create_time"], flags["max_messages"], flags["throughput"]
    prefix, keys = flags["value_prefix"], flags["repeating_keys"]
    assert isinstance(created, int)
    assert isinstance(records, int)
    assert isinstance(per_second, int)
    assert isinstance(prefix, int | None)
    assert isinstance(keys, int | None)
    load = Load(records, per_second, prefix, keys, None if created == -1 else created)
    producer = Producer(properties)
    stop = _Stop(producer)
    try:
        done = produce(producer, str(flags["topic"]), load, emit, is_stopping=lambda: stop.status != 0)
    finally:
        stop.end()
    if stop.status:
        return stop.status
    return effective(ExitStatus.FAILURE, kafka_says=0) if done.acknowledged < done.sent else ExitStatus.OK


class _Stop:
    """Lets SIGINT and SIGTERM close the producer, even while it waits for metadata; all that was sent is reported."""

    def __init__(self, producer: "Producer") -> None:
        self.status = 0
        self._producer = producer
        self._asked: SimpleQueue[None] = SimpleQueue()
        self._closer = Thread(target=self._close, name="closer", daemon=True)
        self._closer.start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def end(self) -> None:
        """Close the producer now, and wait until it is closed."""
        self._asked.put(None)
        self._closer.join()

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.status = 128 + number
        # The handler may have interrupted a send with a lock in hand, which close() needs; this queue needs none.
        self._asked.put(None)

    def _close(self) -> None:
        self._asked.get()
        self._producer.close()


def _properties(flags: Mapping[str, object]) -> dict[str, object]:
    named = client_properties(None, one_server_flag(flags))
    values: dict[str, object] = {**named, "acks": flags["acks"], "retries": 0}
    values.update(
        {
            key: value
            for key, value in client_properties(flags["producer_config"], None).items()
            if key != "bootstrap.servers" or key not in values
        }
    )
    require_brokers(values)
    settle_producer(values)
    return values
