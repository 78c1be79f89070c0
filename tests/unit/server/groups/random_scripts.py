"""Random group scripts, with the outcomes that the machine gives them; brokers are to play them alike.

What a broker may decide either way is left out: which of several members becomes leader when the leader leaves. So is
what Kafka leaves without an answer: who waits hangs up before the same member asks anew or is taken out.
"""

import random
from collections.abc import Iterator

from pkafka.server.groups.group import GroupSettings
from tests.group_script import Command, Step
from tests.unit.server.groups.machine import Machine

_DYNAMIC = ("a", "b", "c")
_STATIC = ("s", "r")
_NAMES = _DYNAMIC + _STATIC
_PROTOCOLS = ("range", "range,roundrobin", "roundrobin,range", "sticky,roundrobin,range", "sticky")
_TOPICS = ("t", "t,u", "u")


def random_script(seed: int, settings: GroupSettings, *, steps: int) -> list[Step]:
    """A script of about ``steps`` steps; the same seed gives the same one."""
    return _Writer(random.Random(seed), Machine(settings)).write(steps)


def random_script_with_restart(
    seed: int, settings: GroupSettings, *, steps: int
) -> tuple[list[Step], list[Step]]:
    """Like :func:`random_script`, in two halves; the second one begins with the restart."""
    writer = _Writer(random.Random(seed), Machine(settings))
    before = writer.write(steps // 2)
    return before, [writer.step(["restart"]), *writer.write(steps // 2)]


class _Writer:
    def __init__(self, chance: random.Random, machine: Machine) -> None:
        self._chance = chance
        self._machine = machine

    def write(self, steps: int) -> list[Step]:
        return [step for _ in range(steps) for step in self._next()]

    def step(self, lines: list[str]) -> Step:
        for line in lines:
            self._machine.play(Command.parse(line))
        return Step([], lines, self._machine.outcome())

    def _next(self) -> Iterator[Step]:
        line = self._next_in_order() if self._sometimes(0.6) else None
        line = line or self._command()
        command = Command.parse(line)
        if self._leaves_a_choice(command):
            return
        lines = [*self._hangups(command), line]
        yield self.step(lines)
        while self._machine.waits_for_first_members:  # at once: a slow broker is not to need longer than that
            yield self.step(["wait ms=520"])

    # -- what to ask --

    def _next_in_order(self) -> str | None:
        """What a member would do that follows the protocol; chance alone hardly ever gets a group stable."""
        late = self._machine.late
        if not late:
            return None
        verb, name = self._chance.choice(late)
        return " ".join([verb, name, *(self._sync(name) if verb == "sync" else [])])

    def _command(self) -> str:
        verb = self._chance.choices(
            ("join", "sync", "heartbeat", "commit", "leave"), weights=(40, 35, 8, 8, 9)
        )[0]
        name = self._chance.choice(_NAMES)
        words = [verb, name, *getattr(self, f"_{verb}")(name)]
        return " ".join(words)

    def _join(self, name: str) -> list[str]:
        words = [f"instance={name}"] if name in _STATIC else []
        words += ["session=120000", "rebalance=120000"]  # longer than any script takes on a broker
        if self._sometimes(0.3):
            words.append(f"protocols={self._chance.choice(_PROTOCOLS)}")
        if self._sometimes(0.2):
            words.append(f"topics={self._chance.choice(_TOPICS)}")
        if self._sometimes(0.3 if name in _STATIC else 0.07):
            words.append("as=-")
        if self._sometimes(0.2):
            words.append(f"version={self._chance.choice((5, 7, 8) if name in _STATIC else (2, 3, 4, 8))}")
        if self._sometimes(0.1):
            words.append("once")
        if self._sometimes(0.03):
            words.append("type=connect")
        elif self._sometimes(0.5):
            words.append("type=consumer")
        return words

    def _sync(self, name: str) -> list[str]:
        shares = [f"{each}:{self._chance.randrange(100)}" for each in _NAMES if self._sometimes(0.7)]
        words = [f"assign={','.join(shares)}"] if shares else []
        return words + self._odd_generation(0.1)

    def _heartbeat(self, name: str) -> list[str]:
        return self._odd_generation(0.2) + self._odd_identity()

    def _commit(self, name: str) -> list[str]:
        return self._odd_generation(0.3) + self._odd_identity()

    def _leave(self, name: str) -> list[str]:
        if self._sometimes(0.2):
            return [f"i={self._chance.choice(_STATIC)}"]
        if self._sometimes(0.2):
            return [self._chance.choice(_NAMES)]
        return self._odd_identity()

    def _odd_generation(self, probability: float) -> list[str]:
        return [f"generation={self._chance.randrange(-1, 5)}"] if self._sometimes(probability) else []

    def _odd_identity(self) -> list[str]:
        if not self._sometimes(0.2):
            return []
        return [self._chance.choice((f"as={self._chance.choice(_NAMES)}", "as=-", "as=nobody!"))]

    def _sometimes(self, probability: float) -> bool:
        return self._chance.random() < probability

    # -- what not to ask --

    def _leaves_a_choice(self, command: Command) -> bool:
        group = self._machine.group
        if command.verb not in ("join", "leave") or group is None or group.size <= 2:
            return False
        if command.verb == "join" and self._machine.has_room_for(command.names[0]):
            return False
        return self._machine.cast.name_of(group.leader or "") in _named(command)

    def _hangups(self, command: Command) -> list[str]:
        waiting = self._machine.waiting
        if command.verb == "leave":
            gone = [name for name in waiting if name in _named(command)]
        elif command.verb in ("join", "sync"):
            # Who waits for the static member that comes without its id is fenced, and so answered.
            fences = command.options.get("as") == "-" and command.names[0] in _STATIC
            gone = [name for name in command.names if name in waiting and not fences]
        else:
            gone = []
        return [f"hangup {name}" for name in gone]


def _named(command: Command) -> set[str | None]:
    return {*command.names, command.options.get("as"), command.options.get("i")}
