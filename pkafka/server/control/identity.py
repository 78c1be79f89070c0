"""The identity of this broker and its cluster: from configuration, coordination store and meta.properties."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pkafka.coordination.cluster import create_persistent_paths, ensure_cluster_id, next_broker_id
from pkafka.coordination.store import Store
from pkafka.coordination.znodes import CLUSTER_ID, ClusterId
from pkafka.errors import PkafkaError
from pkafka.model import BrokerId
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.storage.broker_metadata import VERSION_ZOOKEEPER, BrokerMetadata, new_directory_id
from pkafka.storage.log_directory import LogDirectory


class IdentityConflict(PkafkaError):
    """A log directory belongs to another broker or another cluster."""


class Identity(NamedTuple):
    """Holds the ids of the broker and its cluster."""

    broker_id: BrokerId
    cluster_id: str


def establish_identity(
    store: Store, config: BrokerConfig, directories: Sequence[LogDirectory], *, adopt: bool
) -> Identity:
    """Find or make the cluster id and the broker id, and write them to every log directory.

    Args:
        adopt: the embedded store is new and takes over directories of an Apache Kafka, with their cluster id.

    Raises:
        IdentityConflict: a directory says otherwise; nothing was changed.
        StoreError: the store failed.
        StorageError: a disk refused.
    """
    found = {directory.path: directory.broker_metadata() for directory in directories}
    check_directories(found)
    known = [(path, meta) for path, meta in found.items() if meta is not None]
    create_persistent_paths(store)
    if adopt:
        _adopt_cluster_id(store, {meta.cluster_id for _path, meta in known if meta.cluster_id})
    cluster_id = ensure_cluster_id(store)
    for path, meta in known:
        if meta.cluster_id not in (None, cluster_id):
            raise IdentityConflict(
                f"{path} belongs to cluster {meta.cluster_id}, but the coordination store to cluster {cluster_id}:"
                " check zookeeper.connect and log.dirs"
            )
    broker_id = _broker_id(store, config, {meta.broker_id for _path, meta in known} - {None, -1})
    for directory in directories:
        old = found[directory.path]
        new = BrokerMetadata(
            VERSION_ZOOKEEPER, cluster_id, broker_id, (old and old.directory_id) or new_directory_id()
        )
        if new != old:
            directory.write_broker_metadata(new)
    return Identity(broker_id, cluster_id)


def check_directories(found: Mapping[Path, BrokerMetadata | None]) -> None:
    """Check by their meta.properties that the log directories belong to one broker in ZooKeeper mode.

    Raises:
        IdentityConflict: they cannot.
    """
    known = {path: meta for path, meta in found.items() if meta is not None}
    for path, meta in known.items():
        if meta.is_kraft:
            raise IdentityConflict(
                f"{path} was formatted for KRaft mode (version=1 in its meta.properties), which pkafka does not have"
            )
    clusters = {meta.cluster_id for meta in known.values()} - {None}
    if len(clusters) > 1:
        names = ", ".join(sorted(filter(None, clusters)))
        raise IdentityConflict(f"the log directories belong to different clusters ({names}): check log.dirs")
    brokers = {meta.broker_id for meta in known.values()} - {None, -1}
    if len(brokers) > 1:
        ids = sorted(one for one in brokers if one is not None)
        raise IdentityConflict(f"the log directories belong to different brokers: {ids}; check log.dirs")


def _adopt_cluster_id(store: Store, found: set[str]) -> None:
    if len(found) == 1 and store.exists(CLUSTER_ID) is None:
        store.create(CLUSTER_ID, ClusterId(found.pop()).encode(), make_parents=True)


def _broker_id(store: Store, config: BrokerConfig, stored: "set[int | None]") -> BrokerId:
    written = next(iter(stored), None)
    configured = config.broker_id
    if written is not None and "broker.id" in config.defaulted:
        # A broker that runs without a file has an id that the operator did not choose.
        return written
    if configured >= 0:
        if written is not None and written != configured:
            raise IdentityConflict(
                f"broker.id is {configured}, but the log directories belong to broker {written}:"
                f" set broker.id={written}, or use other log.dirs"
            )
        return configured
    if written is not None:
        return written
    return next_broker_id(store, config.reserved_broker_max_id)
