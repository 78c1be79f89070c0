"""Who a broker is: what the configuration, the store and the directories say, and what happens when they disagree."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pkafka.coordination.embedded import EmbeddedStore
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.control.identity import Identity, IdentityConflict, establish_identity
from pkafka.storage.broker_metadata import VERSION_ZOOKEEPER, BrokerMetadata
from pkafka.storage.log_directory import LogDirectory


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    store = EmbeddedStore(tmp_path / "store.sqlite")
    yield store
    store.close()


@pytest.fixture
def directories(tmp_path: Path) -> list[LogDirectory]:
    return [LogDirectory(tmp_path / name) for name in ("one", "two")]


def establish(
    store: EmbeddedStore, directories: list[LogDirectory], *, adopt: bool = False, **settings: str
) -> Identity:
    config = BrokerConfig({key.replace("_", "."): value for key, value in settings.items()})
    return establish_identity(store, config, directories, adopt=adopt)


def says(directory: LogDirectory, *, cluster_id: str | None, broker_id: int | None) -> None:
    directory.write_broker_metadata(BrokerMetadata(VERSION_ZOOKEEPER, cluster_id, broker_id, None))


def test_a_new_broker_writes_who_it_is_and_stays_that(
    store: EmbeddedStore, directories: list[LogDirectory]
) -> None:
    identity = establish(store, directories, broker_id="5")
    assert identity.broker_id == 5
    written = [directory.broker_metadata() for directory in directories]
    assert [(one.cluster_id, one.broker_id) for one in written if one] == [(identity.cluster_id, 5)] * 2
    assert len({one.directory_id for one in written if one}) == 2
    assert establish(store, directories, broker_id="5") == identity
    assert [directory.broker_metadata() for directory in directories] == written


def test_an_id_is_generated_above_those_that_people_give_and_kept(
    store: EmbeddedStore, directories: list[LogDirectory]
) -> None:
    def again(those: list[LogDirectory]) -> Identity:
        return establish(store, those, zookeeper_connect="z:1", broker_id="-1", reserved_broker_max_id="2000")

    identity = again(directories)
    assert identity.broker_id > 2000
    assert again(directories) == identity
    assert again([]).broker_id > identity.broker_id


def test_a_new_directory_of_a_known_broker_joins_it(
    store: EmbeddedStore, directories: list[LogDirectory]
) -> None:
    identity = establish(store, directories[:1], broker_id="5")
    assert establish(store, directories, broker_id="5") == identity
    second = directories[1].broker_metadata()
    assert second is not None
    assert (second.cluster_id, second.broker_id) == (identity.cluster_id, 5)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("other", 5), (None, None), "belongs to cluster other, but the coordination store to"),
        ((None, 7), (None, None), "broker.id is 5, but the log directories belong to broker 7"),
        ((None, 7), (None, 8), r"belong to different brokers: \[7, 8\]"),
        ((None, 0), (None, 8), r"belong to different brokers: \[0, 8\]"),
    ],
)
def test_a_contradiction_is_refused_and_nothing_is_changed(
    store: EmbeddedStore,
    directories: list[LogDirectory],
    first: tuple[str | None, int | None],
    second: tuple[str | None, int | None],
    expected: str,
) -> None:
    for directory, (cluster_id, broker_id) in zip(directories, (first, second), strict=True):
        says(directory, cluster_id=cluster_id, broker_id=broker_id)
    before = [directory.broker_metadata() for directory in directories]
    with pytest.raises(IdentityConflict, match=expected):
        establish(store, directories, broker_id="5")
    assert [directory.broker_metadata() for directory in directories] == before


def test_an_adopted_directory_keeps_its_cluster_id_and_its_broker_id(
    store: EmbeddedStore, directories: list[LogDirectory]
) -> None:
    for directory in directories:
        says(directory, cluster_id="cluster-of-kafka", broker_id=3)
    assert establish(store, directories, adopt=True, broker_id="3") == Identity(3, "cluster-of-kafka")
    assert establish(store, directories, broker_id="3").cluster_id == "cluster-of-kafka"


def test_directories_of_several_clusters_cannot_be_adopted(
    store: EmbeddedStore, directories: list[LogDirectory]
) -> None:
    for number, directory in enumerate(directories):
        says(directory, cluster_id=f"cluster-{number}", broker_id=3)
    with pytest.raises(IdentityConflict, match="different clusters"):
        establish(store, directories, adopt=True, broker_id="3")
