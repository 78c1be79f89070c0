"""pk-verifiable-producer: send counting numbers and tell what became of each, as kafka-verifiable-producer.sh."""

import signal
from collections.abc import Mapping
from types import FrameType

import click

from pkafka.cli.exit_status import ExitStatus, effective
from pkafka.cli.options import client_properties, command, require_brokers

_CONNECT_MS = 10_000


@command("pk-verifiable-producer", kafka_failure=0)
@click.option("--topic", metavar="NAME", required=True, help="Where the records go.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to begin with.")
@click.option("--broker-list", metavar="HOST:PORT,...", hidden=True)
@click.option(
    "--max-messages", type=int, default=-1, metavar="N", help="How many; -1 until ended from outside."
)
@click.option("--throughput", type=int, default=-1, metavar="N", help="At most so many a second, about.")
@click.option(
    "--acks",
    type=click.Choice(["0", "1", "-1"]),
    default="-1",
    help="How many replicas acknowledge (-1: all).",
)
@click.option(
    "--producer.config",
    "--command-config",
    "producer_config",
    metavar="FILE",
    help="Properties file; wins over flags.",
)
@click.option(
    "--message-create-time", type=int, default=-1, metavar="MS", help="Timestamp of the first record."
)
@click.option("--value-prefix", type=int, metavar="N", help="Stands before every value, with a dot.")
@click.option("--repeating-keys", type=int, metavar="N", help="Keys from 0 to below N, over and over.")
def main(**flags: object) -> int:
    """Send counting numbers, and print what became of each of them as JSON."""
    properties = _properties(flags)
    from pkafka.cli.verifiable_events import emit
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
    stop = _Stop()
    producer = Producer(properties)
    try:
        done = produce(producer, str(flags["topic"]), load, emit, is_stopping=lambda: stop.status != 0)
    finally:
        producer.close()
    if done.acknowledged < done.sent:
        return effective(ExitStatus.FAILURE, kafka_says=0)
    return stop.status


class _Stop:
    """Lets SIGINT and SIGTERM end the sending; what was sent is told before the program ends."""

    def __init__(self) -> None:
        self.status = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.status = 128 + number


def _properties(flags: Mapping[str, object]) -> dict[str, object]:
    named = client_properties(None, flags["bootstrap_server"] or flags["broker_list"])
    values: dict[str, object] = {**named, "acks": flags["acks"], "retries": 0}
    values.update(
        {
            key: value
            for key, value in client_properties(flags["producer_config"], None).items()
            if key != "bootstrap.servers" or key not in values
        }
    )
    require_brokers(values)
    return values
