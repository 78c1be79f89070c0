"""A simulated cluster under a schedule of faults, from a seed to a verdict."""

import asyncio
import gc
import logging
import random as random_module
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pkafka.coordination.store import DeleteOp
from pkafka.server.controller import nodes
from pkafka.server.groups.records import OffsetKey
from tests.sim.broker import Broker, real_code_in
from tests.sim.checker import Checker, Key
from tests.sim.clients import Administrator, Client, Consumer, PlainProducer, Producer
from tests.sim.group import OFFSETS, Ledger, Member
from tests.sim.group_log import NO_OFFSET, offsets_in
from tests.sim.network import HOST_OF_STORE, Network
from tests.sim.promises import KEYS, Promises
from tests.sim.promises import TOPIC as TRANSACTIONAL
from tests.sim.store import Coordination
from tests.sim.transactions import STATE, CommittedReader, TransactionalProducer
from tests.sim.world import Loop, World

TOPIC: Final = "t"
_FAULTS_S: Final = 40.0
_FEW_FAULTS: Final = 5
_BOOT_MAX_S: Final = 60.0
_HEAL_MAX_S: Final = 90.0
_LAST_LOOK_MAX_S: Final = 20.0
_LOOK_S: Final = 0.2
_SEGMENT_BYTES: Final = (400, 2_000, 10_000, 1 << 20)
_WRITING: Final = Producer | PlainProducer | Member | TransactionalProducer
_REGISTRATION_S: Final = 0.002
"""What a broker needs to register itself, about."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a simulation goes; what is left out, the seed decides."""

    faults_s: float = _FAULTS_S
    """How long the cluster is disturbed."""
    faults: Sequence[str] = ()
    """Those that may happen; when empty the seed chooses, all or a few."""

    def options(self) -> str:
        """What asks for this plan on the command line."""
        options = [f"--fault '{name}' " for name in self.faults]
        if self.faults_s != _FAULTS_S:
            options.append(f"--seconds {self.faults_s:g} ")
        return "".join(options)


@dataclass(slots=True)
class Outcome:
    """What became of a simulation."""

    seed: int
    plan: Plan
    violations: list[str]
    trace: list[str]
    acknowledged: int
    read: int
    commits: int
    transactions: int
    simulated_s: float
    steps: int
    faults: dict[str, int]

    def line(self, options: str = "") -> str:
        """In one line: what happened, or what replays it.

        Args:
            options: of the command line, on top of those of the plan.
        """
        if self.violations:
            again = f"python -m tests.sim --trace {options}{self.plan.options()}{self.seed}"
            return f"seed {self.seed}: {self.violations[0]}  (again: {again})"
        return (
            f"seed {self.seed}: {self.acknowledged} records acknowledged, {self.read} read, {self.commits} commits,"
            f" {self.transactions} transactions, {sum(self.faults.values())} faults in {self.simulated_s:.0f} s"
        )


class Simulation:
    """One run.

    Args:
        seed: decides everything.
        root: for the brokers' log directories.
        plan: how it goes.
    """

    def __init__(self, seed: int, root: Path, plan: Plan | None = None) -> None:
        self.plan = plan or Plan()
        self.world = world = World(seed)
        random_module.seed(seed)
        self.network = Network(world)
        self.server = Coordination(world)
        random = world.random
        self.ids = [1, 2, 3] if random.random() < 0.6 else [1, 2, 3, 4]
        settings = {"pkafka.workers": random.choice(("1", "1", "2"))}
        self.brokers = {one: Broker(world, self.server, one, root / str(one), settings) for one in self.ids}
        self.checker = Checker(world, self.server, self.brokers)
        self.clients: list[Client] = []
        self.happened: dict[str, int] = {}
        self.keys: list[Key] = []
        self.members: list[Member] = []
        self.promises = Promises(world)
        self.writers: list[TransactionalProducer] = []
        self._looks_again_s = 0.0

    def run(self) -> Outcome:
        """From the first start to the last look."""
        logs = _Logs(self.world)
        logging.getLogger().addHandler(logs)
        was_collecting = gc.isenabled()
        gc.disable()
        try:
            with real_code_in(self.world, [*self.brokers.values()]), self.checker.watching():
                self._live()
                self.world.close()
        finally:
            if was_collecting:
                gc.enable()
            logging.getLogger().removeHandler(logs)
        world = self.world
        return Outcome(
            seed=world.seed,
            plan=self.plan,
            violations=world.violations,
            trace=world.trace,
            acknowledged=len(self.checker.acknowledged),
            read=self.checker.read_count,
            commits=self.ledger.commits if self.members else 0,
            transactions=self.promises.committed,
            simulated_s=world.elapsed_s,
            steps=world.steps,
            faults=self.happened,
        )

    def _live(self) -> None:
        world = self.world
        for broker in self.brokers.values():
            world.after(world.random.random(), broker.start)
        if not world.run(lambda: all(one.is_ready for one in self.brokers.values()), at_most_s=_BOOT_MAX_S):
            world.violated("the cluster does not start")
            return
        self._begin_clients()
        faults = Faults(self)
        world.after(3.0, faults.happen)
        world.run(lambda: False, at_most_s=self.plan.faults_s)
        if world.violations:
            return
        world.note("-- no more faults")
        faults.heal()
        for client in self.clients:
            client.is_stopping = isinstance(client, _WRITING)
        settled = world.run(self._is_settled, at_most_s=_HEAL_MAX_S)
        if not settled and not world.violations:
            world.violated(f"not well {_HEAL_MAX_S:.0f} s after the last fault: {self._trouble()}")
        if not world.violations:
            self._commit_once_more()
        if not world.violations:
            self._look_for_commits()
            self.checker.check_end()

    def _commit_once_more(self) -> None:
        """After all faults, the next transaction of each producer succeeds."""
        for writer in self.writers:
            self._commit_with(writer)
        if not self.world.run(self._is_settled, at_most_s=_HEAL_MAX_S):
            self.world.violated(f"not well after the last transaction: {self._trouble()}")

    def _commit_with(self, writer: TransactionalProducer) -> None:
        writer.begin(writer.last_transaction)
        if not self.world.run(lambda: writer.is_done, at_most_s=_LAST_LOOK_MAX_S):
            self.world.violated(f"{writer.name} cannot commit, and nothing disturbs it")

    def _look_for_commits(self) -> None:
        for member in self.members:
            member.begin(member.last_look)
        if not self.world.run(lambda: all(one.is_done for one in self.members), at_most_s=_LAST_LOOK_MAX_S):
            self.world.violated("the group's commits cannot be read")
        for writer in self.writers:
            writer.begin(writer.last_look)
        if not self.world.run(lambda: all(one.is_done for one in self.writers), at_most_s=_LAST_LOOK_MAX_S):
            self.world.violated(
                "a transaction does not end, or what it committed for its group cannot be read"
            )
            return
        self.promises.check_end({one.name: one.offset for one in self.writers if one.offset is not None})
        self._compare_offsets_with_log()

    def _compare_offsets_with_log(self) -> None:
        """The next coordinator will have what this one says: it knows the log alone."""
        stored = offsets_in(self.checker.data_of_leader(OFFSETS))
        for one in self.writers:
            in_log = stored.get(OffsetKey(one.group, TRANSACTIONAL, 0), NO_OFFSET)
            if one.offset not in (None, in_log):
                self.world.violated(
                    f"the coordinator says that {one.group} has committed {one.offset}, and the log says {in_log}"
                )

    def _begin_clients(self) -> None:
        world, random = self.world, self.world.random
        admin = self.admin = Administrator(world, self.checker, "admin", self.ids)
        self.clients.append(admin)
        first, second = self._some_brokers(3), self._some_brokers(3)
        # Small ones roll every few batches, and each roll writes down what producers wrote.
        configs = {"segment.bytes": str(random.choice(_SEGMENT_BYTES))}

        async def create() -> None:
            await admin.create(TOPIC, [first, second], configs)
            await admin.create(TRANSACTIONAL, [second, first], configs)

        admin.begin(create)
        self.keys = [(TOPIC, 0), (TOPIC, 1)]
        for key in self.keys:
            for number in range(random.randint(1, 2)):
                name = f"p{key[1]}{number}"
                self.clients.append(Producer(world, self.checker, name, self.ids, key))
            self.clients.append(Consumer(world, self.checker, f"c{key[1]}", self.ids, key))
        self.clients.append(PlainProducer(world, self.checker, "q", self.ids, self.keys[0]))

        self.ledger = Ledger(world, self.keys)
        self.members = [Member(world, self.checker, f"m{one}", self.ids, self.ledger) for one in range(2)]
        self.clients += self.members
        self.writers = [
            TransactionalProducer(world, self.checker, name, self.ids, self.promises, transactional_id)
            for name, transactional_id in (("xa", "x"), ("xb", "x"), ("y", "y"))
        ]
        self.clients += self.writers
        self.clients += [
            CommittedReader(world, self.checker, f"r{key[1]}", self.ids, key, self.promises) for key in KEYS
        ]

    def _some_brokers(self, count: int) -> list[int]:
        return self.world.random.sample(self.ids, count)

    def _is_settled(self) -> bool:
        if self.world.now_s < self._looks_again_s:
            return False
        self._looks_again_s = self.world.now_s + _LOOK_S
        return not self._trouble()

    def _trouble(self) -> str:
        for client in self.clients:
            if isinstance(client, _WRITING) and not client.is_done:
                return f"{client.name} still waits for an answer"
        trouble = self.checker.unsettled()
        if trouble:
            return trouble
        for client in self.clients:
            if isinstance(client, Consumer | CommittedReader):
                # Of the others some had replicas that have moved away since.
                in_sync = self.checker.isrs()[client.key]
                end = max(self.checker.end_of(broker, client.key) or 0 for broker in in_sync)
                if client.position < end:
                    return f"{client.name} has read up to {client.position} of {end}"
        return ""


class Faults:
    """What happens to a cluster, one thing after the other and several at a time."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._world = simulation.world
        self._cuts: list[tuple[str, str]] = []
        self._is_over = False
        self._scratch = 0
        all_faults: dict[str, tuple[int, Callable[[], bool]]] = {
            "kill": (6, self._kill),
            "power": (3, self._lose_power),
            "stop": (3, self._stop),
            "kill worker": (3, lambda: self._kill_process("worker-0")),
            "kill control": (3, lambda: self._kill_process("control")),
            "kill cleaner": (1, lambda: self._kill_process("cleaner")),
            "freeze": (3, self._freeze),
            "cut brokers": (4, self._cut_brokers),
            "cut one way": (3, self._cut_one_way),
            "cut store": (4, self._cut_store),
            "isolate": (3, self._isolate),
            "end session": (2, self._end_session),
            "unseat": (1, self._unseat),
            "slow disk": (1, self._slow_disk),
            "slow network": (1, self._slow_network),
            "kill all": (1, self._kill_all),
            "elect": (2, self._elect),
            "move": (4, self._move),
            "scratch": (2, self._scratch_topic),
        }
        chosen = simulation.plan.faults or self._choose([*all_faults])
        self._names = [name for name in all_faults if name in chosen]
        self._weights = [all_faults[name][0] for name in self._names]
        self._calls = {name: call for name, (_, call) in all_faults.items()}

    def _choose(self, names: list[str]) -> list[str]:
        """All faults, or in every other simulation a few: some things come only of the same one again and again."""
        random = self._world.random
        if random.random() < 0.5:
            return names
        chosen = random.sample(names, random.randint(2, _FEW_FAULTS))
        self._world.note(f"-- only faults: {', '.join(sorted(chosen))}")
        return chosen

    def happen(self) -> None:
        """One more."""
        if self._is_over:
            return
        random = self._world.random
        name = random.choices(self._names, self._weights)[0]
        # While a replica that lost records counts as in sync, the others must be left alone: that nobody else who has
        # them dies then is what Kafka asks for.
        if not self._simulation.checker.tainted and self._calls[name]():
            self._simulation.happened[name] = self._simulation.happened.get(name, 0) + 1
        self._world.after(random.expovariate(1 / 2.5), self.happen)

    def heal(self) -> None:
        """No more faults: everything is mended, and everybody is switched on."""
        self._is_over = True
        for source, target in self._cuts:
            self._world.network.heal(source, target)
        self._cuts.clear()
        self._world.network.base_s = 0.0005
        for broker in self._simulation.brokers.values():
            broker.disk.fsync_s = 0.0
        self._switch_on()

    def _switch_on(self) -> None:
        for broker in self._simulation.brokers.values():
            if not broker.is_up:
                broker.start()
        # One that was just being stopped is started when it has.
        self._world.after(1.0, self._switch_on)

    def _any(self) -> Broker:
        return self._simulation.brokers[self._world.random.choice(self._simulation.ids)]

    def _start_later(self, broker: Broker) -> None:
        self._world.after(0.1 + self._world.random.expovariate(1 / 4.0), self._start, broker)

    def _start(self, broker: Broker) -> None:
        if not broker.is_up and not self._is_over:
            broker.start()

    def _kill(self) -> bool:
        broker = self._any()
        if broker.is_up:
            broker.kill()
            self._start_later(broker)
        return True

    def _kill_all(self) -> bool:
        for broker in self._simulation.brokers.values():
            if broker.is_up:
                broker.kill()
                self._start_later(broker)
        return True

    def _lose_power(self) -> bool:
        """Only where the records are elsewhere, and those who have them are well."""
        broker = self._any()
        brokers = self._simulation.brokers
        if self._cuts or any(not one.is_ready or one.stands_still for one in brokers.values()):
            return False
        isrs = self._simulation.checker.isrs()
        if not broker.is_up or any(broker.broker_id in isr and len(isr) < 2 for isr in isrs.values()):
            return False
        session = broker.session
        broker.lose_power()
        self._simulation.checker.lost_power(broker)
        random, world = self._world.random, self._world
        off_s = 0.5 + random.expovariate(1 / 3.0)
        if random.random() < 0.3:
            # As with containers, the broker is there as soon as its address.
            world.after(off_s, self._start, broker)
            if session is not None and random.random() < 0.5:
                world.after(off_s, self._end_when_back, broker, session)
        else:
            world.after(off_s, broker.switch_on)
            world.after(off_s, self._start_later, broker)
        return True

    def _end_when_back(self, broker: Broker, session: int) -> None:
        """The session of its life before ends when a broker registers itself: perhaps nobody has seen it away."""
        if broker.registers:
            delay_s = _REGISTRATION_S * self._world.random.random()
            self._world.after(delay_s, self._simulation.server.end, session, "it is back")
        elif broker.is_up:
            self._world.after(_REGISTRATION_S, self._end_when_back, broker, session)

    def _stop(self) -> bool:
        broker = self._any()
        if not broker.is_ready:
            return False
        broker.stop()

        def start_when_ended() -> None:
            if broker.is_up:
                self._world.after(0.5, start_when_ended)
            else:
                self._start_later(broker)

        start_when_ended()
        return True

    def _kill_process(self, name: str) -> bool:
        broker = self._any()
        if broker.is_ready:
            broker.kill_process(name)
        return broker.is_ready

    def _freeze(self) -> bool:
        self._any().freeze(self._world.random.choice((0.5, 2.0, 5.0, 9.0)))
        return True

    def _cut(self, pairs: Sequence[tuple[str, str]]) -> None:
        random, network = self._world.random, self._world.network
        seconds = random.choice((0.5, 2.0, 5.0, 12.0)) * (0.5 + random.random())
        self._world.note(f"cut for {seconds:.1f} s: {', '.join(f'{one} -> {other}' for one, other in pairs)}")
        for pair in pairs:
            network.cut(*pair)
            self._cuts.append(pair)

        def heal() -> None:
            for pair in pairs:
                if pair in self._cuts:
                    self._cuts.remove(pair)
                    network.heal(*pair)

        self._world.after(seconds, heal)

    def _cut_brokers(self) -> bool:
        one, other = (f"broker-{one}" for one in self._world.random.sample(self._simulation.ids, 2))
        self._cut([(one, other), (other, one)])
        return True

    def _cut_one_way(self) -> bool:
        hosts = [*(f"broker-{one}" for one in self._simulation.ids), HOST_OF_STORE]
        one, other = self._world.random.sample(hosts, 2)
        self._cut([(one, other)])
        return True

    def _cut_store(self) -> bool:
        host = self._any().host
        self._cut([(host, HOST_OF_STORE), (HOST_OF_STORE, host)])
        return True

    def _isolate(self) -> bool:
        """From the other brokers, and perhaps from the store; clients still reach it."""
        host = self._any().host
        others = [f"broker-{one}" for one in self._simulation.ids if f"broker-{one}" != host]
        if self._world.random.random() < 0.5:
            others.append(HOST_OF_STORE)
        self._cut([pair for other in others for pair in ((host, other), (other, host))])
        return True

    def _end_session(self) -> bool:
        sessions = sorted(self._simulation.server.sessions)
        if sessions:
            self._simulation.server.end(self._world.random.choice(sessions), "by a fault")
        return True

    def _unseat(self) -> bool:
        """As operators do who want another controller: its node goes, and the session of who held it lives on.

        Perhaps since that one stands still; what came to it meanwhile, it finds when it goes on.
        """
        random, server = self._world.random, self._simulation.server
        found = server.peek(nodes.CONTROLLER)
        if found is None:
            return False
        stands_still_s = 0.0
        if random.random() < 0.5:
            stands_still_s = random.choice((0.5, 2.0, 5.0))
            self._simulation.brokers[nodes.decode_controller(found[0])].freeze(stands_still_s)

        def unseat() -> None:
            if server.peek(nodes.CONTROLLER) is not None:
                self._world.note("the controller is unseated")
                server.write(lambda: server.tree.apply(DeleteOp(nodes.CONTROLLER), 0))

        self._world.after(stands_still_s * random.random(), unseat)
        return True

    def _slow_disk(self) -> bool:
        disk = self._any().disk
        disk.fsync_s = 2.0
        self._world.after(5.0, lambda: setattr(disk, "fsync_s", 0.0))
        return True

    def _slow_network(self) -> bool:
        network = self._world.network
        network.base_s = 0.02
        self._world.after(5.0, lambda: setattr(network, "base_s", 0.0005))
        return True

    def _elect(self) -> bool:
        self._simulation.admin.begin(self._simulation.admin.elect_preferred)
        return True

    def _move(self) -> bool:
        random, simulation = self._world.random, self._simulation
        key = random.choice([*simulation.keys, *KEYS, OFFSETS, STATE])
        target = None if random.random() < 0.2 else simulation._some_brokers(3)

        async def move() -> None:
            await simulation.admin.move(key, target)

        self._world.note(f"admin: {key} to {target}")
        simulation.admin.begin(move)
        return True

    def _scratch_topic(self) -> bool:
        """A topic comes, grows, and goes."""
        self._scratch += 1
        simulation, number = self._simulation, self._scratch
        first, more = simulation._some_brokers(2), simulation._some_brokers(2)
        pause_s = self._world.random.random() * 3

        async def live() -> None:
            admin = simulation.admin
            await admin.create(f"scratch-{number % 2}", [first])
            await asyncio.sleep(pause_s)
            await admin.add_partition(f"scratch-{number % 2}", 2, more)
            await asyncio.sleep(pause_s)
            await admin.delete(f"scratch-{number % 2}")

        simulation.admin.begin(live)
        return True


class _Logs(logging.Handler):
    """Puts what the real code logs into the trace; an exception that it did not expect is a violation."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self._world
        loop: Loop | None = world.fiber.loop if world.fiber is not None else world.running
        name = loop.name if loop is not None else "?"
        text = record.getMessage()
        world.note(f"{name}: {record.levelname} {text}")
        if record.exc_info and record.exc_info[1] is not None:
            trace = logging.Formatter().formatException(record.exc_info)
            world.note(trace)
            world.violated(f"{name}: {text}: {record.exc_info[1]!r}")


def simulate(seed: int, root: Path, plan: Plan | None = None) -> Outcome:
    """Run one simulation."""
    return Simulation(seed, root, plan).run()
