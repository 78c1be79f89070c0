"""A tap that others wrote: tap-postgres, on the Singer SDK, from a database through a worker into topics."""

import json
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from pkafka.testing import Broker
from tests.connect_workers import standalone
from tests.postgres import Postgres, missing, postgres
from tests.raw_client import new_topic_name
from tests.talk import Talk, talking, wait_for

pytestmark = [
    pytest.mark.nightly,  # its installation takes a minute
    pytest.mark.timeout(900),
    pytest.mark.skipif(missing() is not None, reason=missing() or ""),
]
_PACKAGE: Final = "meltanolabs-tap-postgres==0.10.0"


@pytest.fixture(scope="module")
def tap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of the tap, in an environment of its own, as its authors want it."""
    directory = tmp_path_factory.mktemp("tap")
    venv.create(directory, with_pip=True)
    made = subprocess.run(
        [directory / "bin" / "python", "-m", "pip", "install", "--quiet", _PACKAGE],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no {_PACKAGE}: {made.stderr[-300:]}")
    return directory / "bin" / "tap-postgres"


@pytest.fixture
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture
def talk(broker: Broker) -> Iterator[Talk]:
    with talking(broker.bootstrap) as talk:
        yield talk


def catalog(tap: Path, config: Path) -> dict[str, Any]:
    """What the tap discovers, with the table selected, by its growing key."""
    command = [str(tap), "--config", str(config), "--discover"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    whole: dict[str, Any] = json.loads(found.stdout)
    whole["streams"] = [each for each in whole["streams"] if each["table_name"] == "people"]
    (stream,) = whole["streams"]
    stream["replication_method"], stream["replication_key"] = "INCREMENTAL", "id"
    for each in stream["metadata"]:
        each["metadata"]["selected"] = True
        if not each["breadcrumb"]:
            each["metadata"] |= {"replication-method": "INCREMENTAL", "replication-key": "id"}
    return whole


def test_rows_come_by_tap_postgres_and_go_on_behind_its_state(
    broker: Broker, talk: Talk, database: Postgres, tap: Path, tmp_path: Path
) -> None:
    database(
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT, tags JSONB)",
        "INSERT INTO people VALUES (1, 'Ann', '{\"a\": 1}'), (2, 'Bob', NULL)",
    )
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps(
            {
                "host": "127.0.0.1",
                "port": database.port,
                "user": "postgres",
                "password": "x",
                "database": "postgres",
                "default_replication_method": "INCREMENTAL",
            }
        )
    )
    name = new_topic_name()
    configs = {
        "name": name,
        "connector.class": "SingerSource",
        "tap.command": str(tap),
        "tap.config.file": str(config),
        "tap.catalog": json.dumps(catalog(tap, config)),
        "tap.interval.ms": "1000",
        "topic.prefix": f"{name}.",
    }
    topic = f"{name}.public-people"
    talk.create(topic)

    def ids() -> set[int]:
        return {json.loads(each.value or b"")["payload"]["id"] for each in talk.read(topic)}

    with standalone(tmp_path / "worker", broker.bootstrap) as worker:
        worker.create(configs)
        wait_for(lambda: ids() == {1, 2}, timeout_s=120)
        first = json.loads(talk.read(topic)[0].value or b"")["payload"]
        assert (first["name"], json.loads(first["tags"])) == ("Ann", {"a": 1})
        (offset,) = worker.rest.call("GET", f"/connectors/{name}/offsets").body["offsets"]
        assert (
            json.loads(offset["offset"]["state"])["bookmarks"]["public-people"]["replication_key_value"] == 2
        )
        worker.kill()
        count = len(talk.read(topic))
        database("INSERT INTO people VALUES (3, 'Cid', NULL)")
        worker.start()
        worker.create(configs)
        wait_for(lambda: ids() == {1, 2, 3}, timeout_s=120)
        again = [json.loads(each.value or b"")["payload"]["id"] for each in talk.read(topic)[count:]]
        assert 1 not in again, "the tap began behind its state"
