"""Controller behaviour as traces: tests/scenarios/controller/*.txt, each a list of steps with what follows from them.

A step stands above ``----``, what it leads to below, a blank line ends it. PKAFKA_REWRITE=1 writes the files anew; the
difference is to be reviewed like code.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pkafka.model import TopicPartition
from pkafka.server.controller import nodes
from tests.unit.server.controller.world import World

_FOLDER = Path(__file__).parents[3] / "scenarios" / "controller"
_FILES = sorted(_FOLDER.glob("*.txt"))


@pytest.mark.parametrize("file", _FILES, ids=[file.stem for file in _FILES])
def test_trace(file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = file.read_text()
    actual = "\n".join(_play(text, World(tmp_path)))
    assert not [record.exc_text for record in caplog.records if record.exc_info], "the controller has a bug"
    if os.environ.get("PKAFKA_REWRITE"):
        file.write_text(actual)
        return
    assert actual == text


def test_there_are_traces() -> None:
    assert len(_FILES) >= 6


def _play(text: str, world: World) -> Iterator[str]:
    outcome = False
    for line in text.splitlines():
        if outcome:
            outcome = bool(line)
            if not line:
                yield ""
        elif not line or line.startswith("#"):
            yield line
        elif line == "----":
            yield line
            yield from world.take_lines()
            outcome = True
        else:
            yield line
            world.brokers.lines += _step(world, line)
    world.close()
    yield ""


def _step(world: World, line: str) -> list[str]:
    command, *words = line.split("#")[0].split()
    options = dict(word.split("=", 1) for word in words)
    return _COMMANDS[command](world, options) or []


def _broker(world: World, options: dict[str, str]) -> None:
    if "up" in options:
        world.start_broker(int(options["up"]), port=int(options.get("port", "9092")))
    else:
        world.stop_broker(int(options["down"]))


def _bounce(world: World, options: dict[str, str]) -> None:
    # Faster than any watch: the controller sees another registration of the same broker.
    path = nodes.broker(int(options["id"]))
    data, _ = world.store.get(path)
    world.store.delete(path)
    world.store.create(path, data)
    world.settle()


def _controller(world: World, options: dict[str, str]) -> None:
    if "start" in options:
        world.start_controller(int(options["start"]))
    else:
        world.crash_controller(int(options["crash"]))


def _topic(world: World, options: dict[str, str]) -> None:
    # assignment=1,2/2,3 are two partitions
    parts = options["assignment"].split("/")
    world.create_topic(
        options["name"], {number: tuple(map(int, part.split(","))) for number, part in enumerate(parts)}
    )


def _delete(world: World, options: dict[str, str]) -> None:
    world.delete_topic(options["name"])


def _show(world: World, options: dict[str, str]) -> list[str]:
    name = options["topic"]
    if world.store.exists(nodes.topic(name)) is None:
        wish = world.store.exists(f"{nodes.DELETE_TOPICS}/{name}") is not None
        return [f"  {name} does not exist{', its deletion is still wanted' if wish else ''}"]
    wish = world.store.exists(f"{nodes.DELETE_TOPICS}/{name}") is not None
    lines = [f"  {name} waits for deletion"] if wish else []
    for number in world.store.children(nodes.partitions(name)):
        lines.append(f"  {world.state(name, int(number))}")
    return lines


def _set_isr(world: World, options: dict[str, str]) -> None:
    # As a leader that knows how: followers joined or left.
    topic, _, number = options["partition"].rpartition("-")
    path = nodes.partition_state(TopicPartition(topic, int(number)))
    data, stat = world.store.get(path)
    now = nodes.decode_leadership(data, stat.version)
    isr = tuple(map(int, options["isr"].split(",")))
    world.store.set(path, nodes.encode_leadership(now._replace(isr=isr)))
    world.store.create(
        f"{nodes.ISR_NOTIFICATIONS}/isr_change_",
        b'{"version":1,"partitions":[{"topic":"%s","partition":%d}]}' % (topic.encode(), int(number)),
        sequential=True,
    )
    world.settle()


def _silence(world: World, options: dict[str, str]) -> None:
    world.brokers.silent_deletes = options["deletes"] == "on"


def _break(world: World, options: dict[str, str]) -> None:
    topic, _, number = options["partition"].rpartition("-")
    broker = int(options["broker"])
    world.brokers.failing.add((broker, TopicPartition(topic, int(number))))
    world.store.create(
        f"{nodes.LOG_DIR_NOTIFICATIONS}/log_dir_event_",
        b'{"version":1,"broker":%d,"event":1}' % broker,
        sequential=True,
    )
    world.settle()


def _usurp(world: World, options: dict[str, str]) -> None:
    world.usurp()


def _unclean(world: World, options: dict[str, str]) -> None:
    world.store.create(
        nodes.topic_config(options["topic"]),
        b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}',
    )


def _allow(world: World, options: dict[str, str]) -> None:
    # What the brokers do when they hear of a changed setting: of a topic, or of all brokers.
    topic = options.get("topic")
    if topic is None:
        world.settings["unclean.leader.election.enable"] = "true"
    else:
        _unclean(world, options)
    for controller in world.controllers.values():
        controller.allow_unclean_election(topic)
    world.settle()


def _active(world: World, options: dict[str, str]) -> list[str]:
    return [
        f"  {broker_id}: {'active' if one.is_active else f'sees {one.active_controller_id}'}"
        for broker_id, one in sorted(world.controllers.items())
    ]


_COMMANDS: dict[str, Callable[[World, dict[str, str]], list[str] | None]] = {
    "active": _active,
    "allow": _allow,
    "bounce": _bounce,
    "break": _break,
    "broker": _broker,
    "controller": _controller,
    "delete": _delete,
    "isr": _set_isr,
    "show": _show,
    "silence": _silence,
    "topic": _topic,
    "unclean": _unclean,
    "usurp": _usurp,
}
