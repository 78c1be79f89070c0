"""A cluster without processes: one embedded store, controllers that are driven by hand, brokers that only take notes.

Brokers are nodes in the store; what a controller sends them becomes lines of a trace, and their metadata caches are
real.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pkafka.clock import ManualClock
from pkafka.coordination.cluster import create_persistent_paths
from pkafka.coordination.embedded import EmbeddedStore
from pkafka.coordination.store import SetOp
from pkafka.coordination.znodes import PartitionAssignment, TopicAssignment
from pkafka.errors import ApiError, ErrorCode
from pkafka.model import TopicPartition
from pkafka.protocol.codec import decode, encode
from pkafka.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from pkafka.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from pkafka.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from pkafka.server.cluster.control_requests import VERSIONS, ControlRequest, ControlResponse
from pkafka.server.cluster.metadata import BrokerInfo, Endpoint, MetadataCache
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.controller import nodes
from pkafka.server.controller.controller import Controller
from pkafka.server.limits.mutation_quotas import MutationQuotas, Mutations
from pkafka.server.policies import Policies
from pkafka.server.security.rights import UNLIMITED, Rights

OnResponse = Callable[[ControlResponse], None] | None
_MARK = "/settled"


class NoteTakingBrokers:
    """The brokers: every request goes through its codec, is noted, obeyed by a metadata cache and answered."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.caches: dict[int, MetadataCache] = {}
        self.silent_deletes = False
        """Answer no StopReplica that deletes, as a broker that dies before it is done."""
        self.failing: set[tuple[int, TopicPartition]] = set()
        """Replicas whose log directory is broken."""

    def send(self, broker_id: int, request: ControlRequest, on_response: OnResponse = None) -> None:
        version = VERSIONS[type(request)]
        request = decode(type(request), version, encode(request, version))
        response: ControlResponse
        if isinstance(request, LeaderAndIsrRequest):
            self._note(broker_id, "LeaderAndIsr", request.controller_epoch, _leaders(request))
            response = self._answer_leader_and_isr(broker_id, request)
        elif isinstance(request, UpdateMetadataRequest):
            self._note(broker_id, "UpdateMetadata", request.controller_epoch, _metadata(request))
            response = UpdateMetadataResponse(error_code=self._apply(broker_id, request))
        else:
            self._note(broker_id, "StopReplica", request.controller_epoch, _stops(request))
            response = self._answer_stop_replica(broker_id, request)
            if self.silent_deletes:
                return
        if on_response is not None:
            on_response(response)

    def brokers_changed(self, brokers: Mapping[int, BrokerInfo]) -> None:
        pass

    def _note(self, broker_id: int, kind: str, epoch: int, text: str) -> None:
        self.lines.append(f"  to {broker_id} {kind} epoch={epoch}: {text}")

    def _apply(self, broker_id: int, request: UpdateMetadataRequest) -> int:
        try:
            self.caches.setdefault(broker_id, MetadataCache("cluster")).apply(request)
        except ApiError as error:
            self.lines.append(f"  {broker_id} refuses: {error.code.name}")
            return error.code
        return ErrorCode.NONE

    def _answer_leader_and_isr(self, broker_id: int, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        return LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrTopicError(
                    topic_id=topic.topic_id,
                    partition_errors=[
                        LeaderAndIsrPartitionError(
                            partition_index=state.partition_index,
                            error_code=self._code(broker_id, topic.topic_name, state.partition_index),
                        )
                        for state in topic.partition_states
                    ],
                )
                for topic in request.topic_states
            ]
        )

    def _answer_stop_replica(self, broker_id: int, request: StopReplicaRequest) -> StopReplicaResponse:
        return StopReplicaResponse(
            partition_errors=[
                StopReplicaPartitionError(
                    topic_name=topic.topic_name,
                    partition_index=state.partition_index,
                    error_code=self._code(broker_id, topic.topic_name, state.partition_index),
                )
                for topic in request.topic_states
                for state in topic.partition_states
            ]
        )

    def _code(self, broker_id: int, topic: str, partition: int) -> int:
        failing = (broker_id, TopicPartition(topic, partition)) in self.failing
        return ErrorCode.KAFKA_STORAGE_ERROR if failing else ErrorCode.NONE


def _numbers(values: list[int]) -> str:
    return f"[{' '.join(map(str, values))}]"


def _leaders(request: LeaderAndIsrRequest) -> str:
    return ", ".join(
        f"{topic.topic_name}-{one.partition_index} leader={one.leader} epoch={one.leader_epoch}"
        f" isr={_numbers(one.isr)}{' new' if one.is_new else ''}"
        for topic in request.topic_states
        for one in topic.partition_states
    )


def _metadata(request: UpdateMetadataRequest) -> str:
    partitions = [
        f"{topic.topic_name}-{one.partition_index} leader={one.leader} epoch={one.leader_epoch}"
        f" isr={_numbers(one.isr)}{f' offline={_numbers(one.offline_replicas)}' if one.offline_replicas else ''}"
        for topic in request.topic_states
        for one in topic.partition_states
    ]
    return ", ".join([f"live={_numbers([one.id for one in request.live_brokers])}", *partitions])


def _stops(request: StopReplicaRequest) -> str:
    return ", ".join(
        f"{topic.topic_name}-{one.partition_index}{' delete' if one.delete_partition else ''} epoch={one.leader_epoch}"
        for topic in request.topic_states
        for one in topic.partition_states
    )


class World:
    """See the module. Every step ends when nothing is left to do."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.file = directory / "store.sqlite"
        self.store = EmbeddedStore(self.file)
        create_persistent_paths(self.store)
        self.clock = ManualClock()
        self.brokers = NoteTakingBrokers()
        self.settings = settings
        self.controllers: dict[int, Controller] = {}

    def close(self) -> None:
        self.store.close()

    # -- steps --

    def start_broker(self, broker_id: int, *, port: int = 9092) -> None:
        info = BrokerInfo(broker_id, None, {"PLAINTEXT": Endpoint("PLAINTEXT", f"host{broker_id}", port)})
        data = nodes.encode_broker(info, self.clock.now_ms())
        if self.store.exists(nodes.broker(broker_id)) is None:
            self.store.create(nodes.broker(broker_id), data)
        else:
            self.store.set(nodes.broker(broker_id), data)
        self.settle()

    def stop_broker(self, broker_id: int) -> None:
        self.store.delete(nodes.broker(broker_id))
        self.brokers.caches.pop(broker_id, None)
        self.settle()

    def start_controller(self, broker_id: int) -> Controller:
        controller = Controller(
            broker_id,
            config=lambda: BrokerConfig({"broker.id": str(broker_id), **self.settings}),
            channels=self.brokers,
            clock=self.clock,
        )
        self.controllers[broker_id] = controller
        controller.new_session(self.store)
        self.settle()
        return controller

    def crash_controller(self, broker_id: int) -> None:
        """Its process is gone, and its session with it."""
        del self.controllers[broker_id]
        self.store.delete(nodes.CONTROLLER)
        self.settle()

    def usurp(self) -> None:
        """Another controller was elected, and the news of it has not reached the old one."""
        data, stat = self.store.get(nodes.CONTROLLER_EPOCH)
        self.store.multi([SetOp(nodes.CONTROLLER_EPOCH, str(int(data) + 1).encode(), stat.version)])
        self.settle()

    def create_topic(self, name: str, assignment: Mapping[int, tuple[int, ...]]) -> None:
        topic_id = bytes([len(name)]) * 8 + name.encode().ljust(8, b"\0")[:8]
        parts = {number: PartitionAssignment(replicas) for number, replicas in assignment.items()}
        path = nodes.topic(name)
        if self.store.exists(path) is None:
            self.store.create(path, TopicAssignment(parts, topic_id).encode())
        else:
            self.store.set(path, TopicAssignment(parts, topic_id).encode())
        self.settle()

    def delete_topic(self, name: str) -> None:
        self.store.create(f"{nodes.DELETE_TOPICS}/{name}", b"")
        self.settle()

    def fail_log_dir(self, broker_id: int) -> None:
        """A broker says that it lost a log directory."""
        self.store.create(
            f"{nodes.LOG_DIR_NOTIFICATIONS}/log_dir_event_",
            b'{"version":1,"broker":%d,"event":1}' % broker_id,
            sequential=True,
        )
        self.settle()

    # -- looking --

    def settle(self) -> None:
        """Let every watch report and every controller work until nothing is left."""
        while True:
            self._await_watches()
            if not any(controller.has_work for controller in self.controllers.values()):
                return
            for controller in list(self.controllers.values()):
                controller.drain()

    def _await_watches(self) -> None:
        # Events are delivered in order: when the one for this write has come, those before it have.
        told = threading.Event()
        watch = self.store.watch_data(_MARK, lambda _: told.set())
        if self.store.exists(_MARK) is None:
            self.store.create(_MARK, b"")
        else:
            self.store.set(_MARK, b"")
        assert told.wait(60), "the store does not report a change"
        watch.unwatch()

    def take_lines(self) -> list[str]:
        lines, self.brokers.lines = self.brokers.lines, []
        return lines

    def state(self, topic: str, partition: int = 0) -> str:
        """A partition's state node as a line."""
        data, stat = self.store.get(nodes.partition_state(TopicPartition(topic, partition)))
        one = nodes.decode_leadership(data, stat.version)
        return (
            f"{topic}-{partition} leader={one.leader} epoch={one.leader_epoch} isr={_numbers(list(one.isr))}"
            f" by={one.controller_epoch} version={one.partition_epoch}"
        )


class InlineControl:
    """A handler's context whose controller works on the caller's thread; answers are there when ``run`` returns."""

    def __init__(self, world: World, broker_id: int, **parts: Any) -> None:
        self.world = world
        self.store = world.store
        self.broker_id = broker_id
        self.cluster_id = "cluster"
        self.clock = world.clock
        self.controller = world.controllers[broker_id]
        self.config = BrokerConfig({"broker.id": str(broker_id), **world.settings})
        self.listener_name = "PLAINTEXT"
        self.policies = Policies()
        self.rights: Rights = UNLIMITED
        self.mutation_quotas = MutationQuotas(samples=11, window_s=1, clock=world.clock)
        for name, part in parts.items():
            setattr(self, name, part)

    def mutations(self, *, is_strict: bool) -> Mutations:
        return self.mutation_quotas.of("ANONYMOUS", "", is_strict=is_strict)

    @property
    def metadata(self) -> MetadataCache:
        return self.world.brokers.caches.setdefault(self.broker_id, MetadataCache("cluster"))

    async def run(self, function: Callable[..., Any], *args: object) -> Any:
        served = self.controller.submit(function, *args)
        await asyncio.sleep(0)
        self.world.settle()
        return served.result(0)
