"""Clients for Go and Node over TLS, by each mechanism: what they may and what not, on Apache Kafka and on pkafka."""

import json
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.bearer_tokens import claims, unsigned
from tests.class_archives import oracle_root
from tests.interop.guarded_doors import OPEN, SHUT, USER, WAYS, WORD, Doors, Way, guarded_doors

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

HERE: Final = Path(__file__).parent
KAFKAJS: Final = "2.2.4"
RECORDS: Final = 50
READ: Final = f"{2 * RECORDS + 1}, the last of them committed"
DONE: Final = {
    **dict.fromkeys(("sends", "sends idempotently"), "sent"),
    **dict.fromkeys(("aborts", "commits"), "done"),
    "reads": READ,
}
"""What every client does where it may."""
ENCRYPTED: Final = [way for way in WAYS if "SSL" in way.protocol]
Command = tuple[Sequence[str], Mapping[str, str]]
"""A program with its first words, and what its environment has more."""


@pytest.fixture(scope="module")
def sides(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Doors]]:
    with guarded_doors(tmp_path_factory.mktemp("doors")) as doors:
        for each in doors:
            each.make(SHUT)
        yield doors


@pytest.fixture(scope="module")
def go_programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Command]:
    """The programs of ``go/``, built once."""
    folder = tmp_path_factory.mktemp("go")

    def command(name: str) -> Command:
        go = shutil.which("go")
        if go is None:
            pytest.skip("needs go")
        program = folder / f"{name}_session"
        if not program.exists():
            words = [go, "build", "-o", str(program), f"./{program.name}"]
            built = subprocess.run(words, cwd=HERE / "go", capture_output=True, text=True, timeout=500)
            assert built.returncode == 0, built.stderr
        return [str(program)], {}

    return command


def kafkajs() -> Command:
    """The program of ``js/``, with kafkajs from npm, fetched once."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("needs node and npm")
    modules = oracle_root() / f"kafkajs-{KAFKAJS}" / "node_modules"
    if not modules.is_dir():
        modules.parent.mkdir(parents=True, exist_ok=True)
        words = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(modules.parent)]
        fetched = subprocess.run([*words, f"kafkajs@{KAFKAJS}"], capture_output=True, text=True, timeout=300)
        assert fetched.returncode == 0, fetched.stderr
    return [node, str(HERE / "js" / "guarded_session.js")], {"NODE_PATH": str(modules)}


def told(command: Command, doors: Doors, way: Way, topic: str) -> dict[str, str]:
    """What a client says that became of each thing that it tried."""
    words, environment = command
    argument = {
        "bootstrap": doors.listeners[way.listener],
        "protocol": way.protocol,
        "mechanism": way.mechanism,
        "user": USER,
        "word": WORD if way.mechanism not in ("", "OAUTHBEARER") else "",
        "token": unsigned(claims(sub=USER)),
        "ca": str(doors.files / "ca.pem"),
        "own": str(doors.files / f"{USER}.pem") if way.listener == "mtls" else "",
        "open": topic,
        "shut": SHUT,
        "count": RECORDS,
    }
    done = subprocess.run(
        [*words, json.dumps(argument)],
        capture_output=True,
        text=True,
        timeout=400,
        env={"PATH": "/usr/bin:/bin", "HOME": str(doors.files), **environment},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("way", ENCRYPTED, ids=lambda way: way.name)
@pytest.mark.parametrize("client", ["franz", "sarama", "kafkajs"])
def test_a_client_of_another_language(
    sides: Sequence[Doors], go_programs: Callable[[str], Command], client: str, way: Way
) -> None:
    command = kafkajs() if client == "kafkajs" else go_programs(client)
    topic = f"{OPEN}-{uuid.uuid4().hex[:8]}"
    said = []
    for doors in sides:
        doors.make(topic)
        said.append(told(command, doors, way, topic))
    kafkas, ours = said
    assert ours == kafkas
    assert {each: ours[each] for each in DONE} == DONE
    refusals = {each: why for each, why in ours.items() if each not in DONE}
    assert len(refusals) >= 3
    # kafkajs looks for a coordinator until it gives up, and does not tell why.
    refused = ("authoriz", "sasl", "coordinatornotfound")
    assert all(any(sign in why.lower() for sign in refused) for why in refusals.values()), refusals
