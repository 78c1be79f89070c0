"""pk-metadata: what brokers say of their cluster, compared with each other and ZooKeeper; Kafka has no such tool."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from pkafka.cli.kit.columns import columns
from pkafka.cli.kit.gathering import in_the_place_of
from pkafka.cli.kit.kafka_command import HELP_FLAGS, CommandError, failure
from pkafka.cli.kit.options import Common, connection_options, debug_option, version_option
from pkafka.cli.kit.output import Table, View
from pkafka.cli.kit.subcommands import PrefixGroup
from pkafka.cli.kit.topic_filter import topic_pattern
from pkafka.cli.kit.zookeeper_option import opened_store, zookeeper_option
from pkafka.model import NO_TOPIC_ID, TopicPartition, topic_id_text

if TYPE_CHECKING:
    from pkafka.tools.cluster.metadata_view import Look, Partition

F = TypeVar("F", bound=Callable[..., Any])
Row = dict[str, object]


class Asked(NamedTuple):
    """The values of the flags of a verb.

    Args:
        is_included: whether a topic of this name is shown.
        problems: show only rows where something is amiss.
        check: fail where there is one.
    """

    common: Common
    zookeeper: str | None
    is_included: Callable[[str], object]
    problems: bool
    check: bool

    def show(
        self, name: str, rows: Iterable[tuple[Row, bool]], extra: Mapping[str, object] | None = None
    ) -> None:
        """Print rows, each marked where something is wrong.

        Raises:
            CommandError: something is wrong, and ``--check`` asks for that.
        """
        found = list(rows)
        amiss = sum(is_amiss for _, is_amiss in found)
        shown = [row for row, is_amiss in found if is_amiss or not self.problems]
        self.common.show(View(name, columns(Table(shown)), shown, extra or {}))
        if self.check and amiss:
            raise CommandError(f"something is amiss with {amiss} of {len(found)} {name.replace('_', ' ')}")


@click.group("pk-metadata", cls=PrefixGroup, context_settings={"help_option_names": HELP_FLAGS})
@version_option
def main() -> None:
    """What brokers say of their cluster, which of them have old metadata, and with --zookeeper what its nodes say.

    Where brokers disagree, the command looks again a second later: something may have been changing. Verbs may be
    shortened: pk-metadata i.
    """


def _verb(*, of_topics: bool) -> Callable[[F], F]:
    """Make a function a verb; the flags arrive as one ``asked: Asked``."""

    def decorate(function: F) -> F:
        def gathered(
            common: Common,
            problems: bool,
            check: bool,
            zookeeper: str | None = None,
            topic: str | None = None,
        ) -> object:
            pattern = re.compile(".*") if topic is None else topic_pattern(topic)
            return function(Asked(common, zookeeper, pattern.fullmatch, problems, check))

        options: list[Callable[[Any], Any]] = [
            connection_options,
            debug_option,
            click.option("--problems", is_flag=True, help="Show only what is not as it should be."),
            click.option("--check", is_flag=True, help="End with 1 where something is not as it should be."),
        ]
        if of_topics:
            options.append(click.option("--topic", metavar="REGEX", help="Only these topics."))
        return in_the_place_of(function, gathered, *options)

    return decorate


_zookeeper = zookeeper_option("Look at the nodes there too, and say where brokers tell something else.")


def _observe(asked: Asked) -> "Look":
    from pkafka.tools.cluster.metadata_view import chosen, observe

    with ExitStack() as opened:
        admin = opened.enter_context(asked.common.admin())
        store = None
        if asked.zookeeper is not None:
            store = opened.enter_context(opened_store(asked.zookeeper, asked.common.timeout_ms))
        return chosen(observe(admin, store, timeout_ms=asked.common.timeout_ms), asked.is_included)


@main.command("brokers")
@_verb(of_topics=False)
@_zookeeper
def brokers(asked: Asked) -> None:
    """Brokers: what each leads and should lead, its replicas out of sync, and whether its metadata is old."""
    look = _observe(asked)
    parts = look.partitions.values()
    counts: dict[str, Counter[Any]] = {
        "leaders": Counter(each.leader for each in parts),
        "preferred": Counter(each.replicas[0] for each in parts if each.replicas),
        "replicas": Counter(broker for each in parts for broker in each.replicas),
        "out_of_sync": Counter(broker for each in parts for broker in each.missing),
    }
    registered = None if look.nodes is None else look.nodes.broker_epochs
    known = set(look.told) | set(look.alive) | set(counts["replicas"]) | set(registered or ())
    asked.show("brokers", (_broker_row(look, broker, counts, registered) for broker in sorted(known)))


def _broker_row(
    look: "Look", broker: int, counts: Mapping[str, Counter[Any]], registered: Mapping[int, int] | None
) -> tuple[Row, bool]:
    from pkafka.errors import PkafkaError
    from pkafka.tools.cluster.metadata_view import Told

    told = look.told.get(broker)
    places = [
        each.brokers[broker]
        for each in look.told.values()
        if isinstance(each, Told) and broker in each.brokers
    ]
    address, rack = places[0] if places else (None, None)
    behind = sorted(look.behind.get(broker, ()))
    stale = len(look.stale.get(broker, ()))
    alive = broker in look.alive
    if registered is not None and alive != (broker in registered):
        behind.append("ZooKeeper does not know it" if alive else "no broker knows it")
    error = failure(told) if isinstance(told, PkafkaError) else None
    row: Row = {
        "broker": broker,
        "address": address,
        "rack": rack,
        "alive": alive,
        "controller": broker == look.controller,
        **{name: counter[broker] for name, counter in counts.items()},
        "stale_partitions": stale,
        "epoch": None if registered is None else registered.get(broker),
        "difference": ", ".join(behind) or None,
        "error": error,
    }
    return row, not alive or bool(behind or stale or error or counts["out_of_sync"][broker])


@main.command("controller")
@_verb(of_topics=False)
@_zookeeper
def controller(asked: Asked) -> None:
    """The controller, as each broker and ZooKeeper name it."""
    from pkafka.tools.cluster.metadata_view import Told

    look = _observe(asked)
    rows: list[tuple[Row, bool]] = []
    for broker, told in sorted(look.told.items()):
        says = told.controller if isinstance(told, Told) and told.controller >= 0 else None
        behind = [each for each in look.behind.get(broker, ()) if "controller" in each]
        rows.append(
            ({"source": f"broker {broker}", "controller": says, "epoch": None}, bool(behind) or says is None)
        )
    if look.nodes is not None:
        says = look.nodes.controller if look.nodes.controller >= 0 else None
        row: Row = {"source": "zookeeper", "controller": says, "epoch": look.nodes.controller_epoch}
        rows.append((row, says != look.controller))
    asked.show("sources", rows, {"controller": look.controller if look.controller >= 0 else None})


@main.command("topics")
@_verb(of_topics=True)
@_zookeeper
def topics(asked: Asked) -> None:
    """Topics: partitions without a leader, with replicas out of sync, or led by another than the preferred replica."""
    from pkafka.tools.cluster.metadata_view import NOT_PREFERRED, OFFLINE

    look = _observe(asked)
    of_topic: dict[str, list[Partition]] = {name: [] for name in sorted(look.topics)}
    for partition, one in look.partitions.items():
        of_topic.setdefault(partition.topic, []).append(one)
    stale = {each.topic for some in look.stale.values() for each in some}
    rows: list[tuple[Row, bool]] = []
    for name, parts in of_topic.items():
        topic = look.topics[name]
        states = Counter(each.state for each in parts)
        differing = sum(each.topic == name for each in look.differences)
        row: Row = {
            "topic": name,
            "topic_id": topic_id_text(topic.topic_id) if topic.topic_id != NO_TOPIC_ID else None,
            "internal": topic.is_internal,
            "partitions": len(parts),
            "replication_factor": max((len(each.replicas) for each in parts), default=0),
            "offline": states[OFFLINE],
            "under_replicated": sum(bool(each.missing) for each in parts),
            "not_preferred": states[NOT_PREFERRED],
            "stale_brokers": sorted(
                broker for broker, some in look.stale.items() if any(each.topic == name for each in some)
            ),
            "differences": differing if look.nodes is not None else None,
        }
        amiss = any(each.missing or each.leader is None for each in parts)
        rows.append((row, amiss or name in stale or bool(differing)))
    asked.show("topics", rows)


@main.command("partitions")
@_verb(of_topics=True)
@_zookeeper
def partitions(asked: Asked) -> None:
    """Partitions: leaders and preferred leaders, the replicas in sync, and the brokers that say something else."""
    look = _observe(asked)
    asked.show("partitions", (_partition_row(look, each) for each in _all(look)))


@main.command("isr")
@_verb(of_topics=True)
@_zookeeper
def isr(asked: Asked) -> None:
    """Only the partitions without a leader, or with a replica out of sync."""
    look = _observe(asked)
    lacking = [each for each, one in look.partitions.items() if one.missing or one.leader is None]
    asked.show("partitions", ((_partition_row(look, each)[0], True) for each in lacking))


def _all(look: "Look") -> Sequence[TopicPartition]:
    return sorted(look.partitions.keys() | look.differences.keys())


def _partition_row(look: "Look", partition: TopicPartition) -> tuple[Row, bool]:
    from pkafka.tools.cluster.metadata_view import Partition

    # One that no broker knows is in ZooKeeper alone.
    is_known = partition in look.partitions
    one = look.partitions.get(partition, Partition(None, -1, (), ()))
    stale, difference = look.stale_brokers(partition), look.differences.get(partition)
    row: Row = {
        "topic": partition.topic,
        "partition": partition.partition,
        "state": one.state if is_known else None,
        "leader": one.leader,
        "preferred": one.replicas[0] if one.replicas else None,
        "replicas": list(one.replicas),
        "isr": list(one.isr),
        "missing": list(one.missing),
        "dead": [each for each in one.replicas if each not in look.alive],
        "stale_brokers": stale,
        "difference": difference,
    }
    return row, bool(one.missing or one.leader is None or stale or difference)


@main.command("log-dirs")
@_verb(of_topics=False)
def log_dirs(asked: Asked) -> None:
    """Log directories: what is in them, how much room there is, and which have failed."""
    with asked.common.admin() as admin:
        view = admin.cluster.refresh(None)
        # A dead broker has replicas too, of which no other broker can say anything.
        assigned = {
            broker
            for topic in view.topics.values()
            for partition in topic.partitions
            for broker in partition.replicas
        }
        found = admin.describe_log_dirs(view.brokers.keys() | assigned, timeout_ms=asked.common.timeout_ms)
    rows: list[tuple[Row, bool]] = []
    for broker, outcome in sorted(found.items()):
        if not isinstance(outcome, list):
            rows.append((_directory_row(broker, error=failure(outcome)), True))
            continue
        for each in outcome:
            row = _directory_row(
                broker,
                log_dir=each.path,
                replicas=len(each.replicas),
                size_bytes=sum(one.size_bytes for one in each.replicas),
                total_bytes=each.total_bytes if each.total_bytes >= 0 else None,
                usable_bytes=each.usable_bytes if each.usable_bytes >= 0 else None,
                error=failure(each.error),
            )
            rows.append((row, each.error is not None))
    asked.show("log_dirs", rows)


def _directory_row(broker: int, **values: object) -> Row:
    keys = ("log_dir", "replicas", "size_bytes", "total_bytes", "usable_bytes", "error")
    return {"broker": broker, **dict.fromkeys(keys), **values}


@main.command("epochs")
@_verb(of_topics=True)
@_zookeeper
def epochs(asked: Asked) -> None:
    """Leader epochs as every broker has them, and with --zookeeper the epochs of the partitions' nodes."""
    look = _observe(asked)
    asked.show("partitions", (_epoch_row(look, each) for each in _all(look)))


def _epoch_row(look: "Look", partition: TopicPartition) -> tuple[Row, bool]:
    one = look.partitions.get(partition)
    written = None if look.nodes is None else look.nodes.states.get(partition)
    stale, difference = look.stale_brokers(partition), look.differences.get(partition)
    row: Row = {
        "topic": partition.topic,
        "partition": partition.partition,
        "leader": None if one is None else one.leader,
        "leader_epoch": None if one is None or one.leader_epoch < 0 else one.leader_epoch,
        "written_leader_epoch": None if written is None else written.leader_epoch,
        "partition_epoch": None if written is None else written.partition_epoch,
        "controller_epoch": None if written is None else written.controller_epoch,
        "stale_brokers": stale,
        "difference": difference,
    }
    return row, bool(stale or difference)


if __name__ == "__main__":
    main()
