"""The internal topics of a Connect cluster: the same calls for the stores of pkafka and of Java, the same answers."""

import json
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from pkafka.connect.distributed.config import distributed_config
from pkafka.connect.plugins import load_plugins
from pkafka.connect.states import State, Target, TaskName
from pkafka.connect.storage.config_state import (
    Change,
    ConnectorChanged,
    ConnectorRemoved,
    LoggerLevel,
    RestartAsked,
    SessionKeyChanged,
    TargetChanged,
    TaskCountChanged,
    TasksChanged,
)
from pkafka.connect.storage.config_topic import ConfigTopic
from pkafka.connect.storage.offset_store import ConnectorOffsets, OffsetStore
from pkafka.connect.storage.offset_topic import OffsetTopic, OwnOffsets, own_offset_topic
from pkafka.connect.storage.session_key import SIGNATURE_HEADER, SessionKey, sign, verify
from pkafka.connect.storage.status_topic import StatusTopic
from pkafka.connect.storage.statuses import ConnectorStatus, Status, TaskStatus, TopicStatus
from pkafka.connect.storage.topic_log import internal_clients
from pkafka.errors import PkafkaError
from tests.connect_workers import JSON_WITHOUT_SCHEMAS

Answer = Any
_REFRESH_S = 60.0


class Stores(Protocol):
    """Takes calls; see ``ConnectStoresOracle.java`` for their names."""

    def ask(self, **call: object) -> Answer:
        """What a call gives; ``error`` and ``message`` when it fails."""


def worker_settings(bootstrap: str, name: str, **more: str) -> dict[str, str]:
    """The settings of a distributed worker whose topics begin with a name."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": name,
        **JSON_WITHOUT_SCHEMAS,
        **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "offset.storage.partitions": "5",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


class JavaStores:
    """Those of Apache Kafka Connect.

    Args:
        process: of the oracle.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, **call: object) -> Answer:
        """Call the oracle."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the oracle has ended"
        return json.loads(line)


class OurStores:
    """Those of pkafka."""

    def __init__(self) -> None:
        self._told: list[str] = []

    def ask(self, **call: Any) -> Answer:
        """Do what the call says, as the oracle would."""
        name = str(call.pop("do"))
        try:
            found = getattr(self, name)(**call)
        except PkafkaError as error:
            return {"error": getattr(error, "JAVA_NAME", ""), "message": str(error)}
        return {} if found is None else found

    def open(self, worker: Mapping[str, str]) -> None:
        config = distributed_config(worker, load_plugins())
        self._opened: list[ConfigTopic | StatusTopic | OffsetTopic] = []
        self.configs = ConfigTopic.of(config, self._tell, client_id="ours-")
        self.statuses_ = StatusTopic.of(config, client_id="ours-")
        self.offsets_ = OffsetTopic.of(config, client_id="ours-")
        for store in (self.configs, self.statuses_, self.offsets_):
            store.start()
            self._opened.append(store)
        self._config = config
        self._used: OffsetStore = self.offsets_

    def open_own(self, topic: str) -> None:
        clients = internal_clients(self._config, "own", read_committed=False)
        own = OffsetTopic(own_offset_topic(self._config, topic), clients, _REFRESH_S)
        own.start()
        self._opened.append(own)
        self._used = OwnOffsets(own, self.offsets_)

    def check(self, worker: Mapping[str, str]) -> None:
        distributed_config(worker, load_plugins())

    def close(self) -> None:
        for store in self._opened:
            store.stop()
        self._opened = []
        self._told.clear()

    def _tell(self, change: Change) -> None:
        match change:
            case ConnectorRemoved(name):
                self._told.append(f"removed {name}")
            case ConnectorChanged(name):
                self._told.append(f"connector {name}")
            case TasksChanged(_, tasks):
                self._told.append(f"tasks [{', '.join(map(str, sorted(tasks)))}]")
            case TargetChanged(name):
                self._told.append(f"target {name}")
            case SessionKeyChanged(key):
                self._told.append(f"key {b64encode(key.key).decode()}")
            case RestartAsked(name, only_failed, include_tasks):
                self._told.append(
                    f"restart {name} {only_failed} {include_tasks}".replace("True", "true").replace(
                        "False", "false"
                    )
                )
            case LoggerLevel(namespace, level):
                self._told.append(f"level {namespace} {level}")
            case TaskCountChanged():
                pass  # Java's listener does not hear of it

    # -- the config topic --

    def claim(self) -> None:
        self.configs.claim_write_privileges()

    def put_connector(self, name: str, configs: Mapping[str, str], target: str | None = None) -> None:
        self.configs.put_connector(name, configs, None if target is None else Target(target))

    def remove_connector(self, name: str) -> None:
        self.configs.remove_connector(name)

    def put_tasks(self, name: str, tasks: list[dict[str, str]]) -> None:
        self.configs.put_tasks(name, tasks)

    def put_target(self, name: str, target: str) -> None:
        self.configs.put_target(name, Target(target))

    def put_task_count(self, name: str, count: int) -> None:
        self.configs.put_task_count(name, count)

    def put_restart(self, name: str, only_failed: bool, include_tasks: bool) -> None:
        self.configs.put_restart(name, only_failed=only_failed, include_tasks=include_tasks)

    def put_level(self, name: str, level: str) -> None:
        self.configs.put_logger_level(name, level)

    def put_key(self, key: str, algorithm: str, created_ms: int) -> None:
        self.configs.put_session_key(SessionKey(b64decode(key), algorithm, created_ms))

    def told(self) -> list[str]:
        self.configs.refresh(_REFRESH_S)
        found = list(self._told)
        self._told.clear()
        return found

    def snapshot(self) -> Answer:
        self.configs.refresh(_REFRESH_S)
        state = self.configs.snapshot()
        key = state.session_key
        return {
            "offset": state.offset,
            "session_key": key and f"{b64encode(key.key).decode()} {key.algorithm} {key.created_ms}",
            "names": state.connectors(),
            "connectors": {
                name: {
                    "configs": state.connector(name),
                    "target": str(state.targets[name].value),
                    "count": state.task_count(name),
                    "is_inconsistent": name in state.inconsistent,
                    "is_pending_fencing": state.is_pending_fencing(name),
                    "count_record": state.task_count_records.get(name),
                    "generation": state.task_config_generations.get(name),
                    "tasks": [state.task(task) for task in state.tasks(name)],
                }
                for name in state.connectors()
            },
        }

    # -- the status topic --

    def put_status(
        self,
        connector: str,
        state: str,
        worker: str,
        generation: int,
        trace: str | None = None,
        task: int | None = None,
        safe: bool = False,
    ) -> None:
        status: Status
        if task is None:
            status = ConnectorStatus(connector, State(state), worker, generation, trace)
        else:
            status = TaskStatus(TaskName(connector, task), State(state), worker, generation, trace)
        (self.statuses_.put_safe if safe else self.statuses_.put)(status)
        self.statuses_.refresh(_REFRESH_S)

    def put_topic(self, topic: str, connector: str, task: int, discovered_ms: int) -> None:
        self.statuses_.put_topic(TopicStatus(topic, connector, task, discovered_ms))
        self.statuses_.refresh(_REFRESH_S)

    def delete_topic(self, connector: str, topic: str) -> None:
        self.statuses_.delete_topic(connector, topic)
        self.statuses_.refresh(_REFRESH_S)

    def statuses(self, connector: str) -> Answer:
        self.statuses_.refresh(_REFRESH_S)
        found = self.statuses_.connector(connector)
        return {
            "connector": found and _shown(found),
            "tasks": {str(each.name.number): _shown(each) for each in self.statuses_.tasks(connector)},
            "topics": {
                each.topic: f"{each.connector} {each.task} {each.discovered_ms}"
                for each in self.statuses_.topics(connector)
            },
        }

    # -- the offset topic --

    def put_offsets(
        self, connector: str, offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> None:
        ConnectorOffsets(self._used, connector).store(offsets)

    def offsets(self, connector: str, partitions: list[dict[str, Any]]) -> Answer:
        return [offset for _, offset in ConnectorOffsets(self._used, connector).offsets(partitions)]

    def sign(self, key: str, body: str, algorithm: str) -> str:
        session, data = SessionKey(b64decode(key), "HmacSHA256", 0), b64decode(body)
        headers = sign(session, data, algorithm)
        verify(session, data, headers, [algorithm])
        return f"{headers[SIGNATURE_HEADER]} true"


def _shown(status: Status) -> dict[str, object]:
    return {
        "state": status.state.value,
        "worker": status.worker_id,
        "generation": status.generation,
        "trace": status.trace,
    }


@contextmanager
def opened(stores: Stores, worker: Mapping[str, str]) -> Iterator[Stores]:
    """Stores that have read their topics."""
    found = stores.ask(do="open", worker=worker)
    assert found == {}, found
    try:
        yield stores
    finally:
        stores.ask(do="close")
