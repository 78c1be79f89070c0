"""What a broker does at the store before it can work: lasting paths, cluster id, broker id, its ephemeral node.

Each function may be run by any number of brokers at the same time, and again after a lost connection.
"""

import contextlib
from collections.abc import Iterable

from pkafka.coordination.store import (
    BadVersionError,
    CreateOp,
    NodeExistsError,
    NoNodeError,
    SetOp,
    Stat,
    Store,
    parent_of,
)
from pkafka.coordination.znodes import BROKER_SEQUENCE, CLUSTER_ID, PERSISTENT_PATHS, ClusterId
from pkafka.model import BrokerId, topic_id_text
from pkafka.topic_ids import new_topic_id


class BrokerIdTakenError(NodeExistsError):
    """Another live session owns the ephemeral node: two processes want to be the same."""


def create_persistent_paths(store: Store, paths: Iterable[str] = PERSISTENT_PATHS) -> None:
    """Create every path, with its parents, that does not exist yet."""
    for path in paths:
        if store.exists(path) is None:
            with contextlib.suppress(NodeExistsError):
                store.create(path, b"", make_parents=True)


def ensure_cluster_id(store: Store) -> str:
    """The cluster's id; the first broker ever makes it.

    Raises:
        ZnodeFormatError: the znode holds something else.
    """
    with contextlib.suppress(NoNodeError):
        return ClusterId.decode(store.get(CLUSTER_ID)[0]).cluster_id
    # Like every id of Kafka's a random UUID in base64, one that does not begin with a dash.
    proposed = ClusterId(topic_id_text(new_topic_id()))
    try:
        store.create(CLUSTER_ID, proposed.encode(), make_parents=True)
    except NodeExistsError:
        return ClusterId.decode(store.get(CLUSTER_ID)[0]).cluster_id
    return proposed.cluster_id


def next_broker_id(store: Store, reserved_max: int) -> BrokerId:
    """A broker id that was never given before (``broker.id.generation.enable``).

    Args:
        store: where the cluster lives.
        reserved_max: ``reserved.broker.max.id``; ids above it are generated, those up to it people assign.
    """
    # The version of the znode is the sequence: every write, from any broker, gets another one.
    while True:
        try:
            return reserved_max + store.set(BROKER_SEQUENCE, b"").version
        except NoNodeError:
            with contextlib.suppress(NodeExistsError):
                store.create(BROKER_SEQUENCE, b"", make_parents=True)


def create_checked_ephemeral(
    store: Store, path: str, data: bytes, *, previous_session_id: int | None = None
) -> Stat:
    """Create an ephemeral node of this session, and learn its czxid (of ``/brokers/ids/N``: the broker epoch).

    Args:
        store: whose session shall own the node.
        path: of the node; its parent exists.
        data: its content.
        previous_session_id: of an earlier session of this same process, whose node may not have gone yet: it is
            replaced. Our own node, from a create whose answer was lost, counts as created.

    Raises:
        BrokerIdTakenError: the node belongs to another broker.
        ConnectionLossError: call again; the node may exist already.
    """
    while True:
        try:
            # In one step: were they two, another session's node could come between create and read.
            _, stat = store.multi([CreateOp(path, data, ephemeral=True), SetOp(path, data)])
            assert isinstance(stat, Stat)
            return stat
        except NodeExistsError:
            current = store.exists(path)
        except NoNodeError:
            raise NoNodeError(path, f"{parent_of(path)} does not exist") from None
        if current is None:
            continue  # it went between the two requests
        if current.ephemeral_owner == store.session_id:
            return store.set(path, data)
        if not previous_session_id or current.ephemeral_owner != previous_session_id:
            raise BrokerIdTakenError(
                path,
                f"{path} exists and belongs to session {current.ephemeral_owner:#x}, not to this process",
            )
        with contextlib.suppress(NoNodeError, BadVersionError):
            store.delete(path, version=current.version)
