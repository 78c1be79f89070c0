"""A session of command lines, kafka-* and pk-* side by side on Apache Kafka and on pkafka; see session/transcript.py.

The files hold what Kafka's tools answered on Apache Kafka. Each make has to answer that on each system; where pk-*
does not, on purpose, the file names the reason and docs/differences.md explains it.
``PKAFKA_RECORD=1 pytest tests/interop/test_session.py -k tools-on-kafka`` writes the answers of Kafka's tools anew;
``-k pk-on-kafka``, then ``-k pk-compatible-on-kafka``, what pk-* does otherwise, for somebody to judge.
"""

import contextlib
import os
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

import pytest

from tests.differences import first_difference
from tests.forked_commands import commands
from tests.interop.conftest import JavaTool, System
from tests.interop.members import member
from tests.interop.session.transcript import (
    DERIVED,
    Answer,
    Command,
    Session,
    Stage,
    Step,
    read_session,
    sessions,
)
from tests.talk import talking, wait_for

RECORD: Final = os.environ.get("PKAFKA_RECORD") == "1"
DIFFERENCES: Final = Path(__file__).parents[2] / "docs" / "differences.md"
TOOLS: Final = {
    "topics": ("topics", "org.apache.kafka.tools.TopicCommand"),
    "configs": ("configs", "kafka.admin.ConfigCommand"),
    "console-producer": ("console_producer", "kafka.tools.ConsoleProducer"),
    "console-consumer": ("console_consumer", "org.apache.kafka.tools.consumer.ConsoleConsumer"),
    "consumer-groups": ("consumer_groups", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"),
    "get-offsets": ("get_offsets", "org.apache.kafka.tools.GetOffsetShell"),
    "delete-records": ("delete_records", "org.apache.kafka.tools.DeleteRecordsCommand"),
    "leader-election": ("leader_election", "org.apache.kafka.tools.LeaderElectionCommand"),
    "reassign-partitions": (
        "reassign_partitions",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    ),
    "log-dirs": ("log_dirs", "org.apache.kafka.tools.LogDirsCommand"),
    "broker-api-versions": ("broker_api_versions", "kafka.admin.BrokerApiVersionsCommand"),
    "cluster": ("cluster", "org.apache.kafka.tools.ClusterTool"),
    "features": ("features", "org.apache.kafka.tools.FeatureCommand"),
    "transactions": ("transactions", "org.apache.kafka.tools.TransactionsCommand"),
    "dump-log": ("dump_log", "kafka.tools.DumpLogSegments"),
    "producer-perf-test": ("producer_perf_test", "org.apache.kafka.tools.ProducerPerformance"),
    "consumer-perf-test": ("consumer_perf_test", "org.apache.kafka.tools.ConsumerPerformance"),
    "e2e-latency": ("e2e_latency", "org.apache.kafka.tools.EndToEndLatency"),
    "verifiable-producer": ("verifiable_producer", "org.apache.kafka.tools.VerifiableProducer"),
    "verifiable-consumer": ("verifiable_consumer", "org.apache.kafka.tools.VerifiableConsumer"),
}
"""The module of pkafka.cli and the Java class behind kafka-NAME.sh and pk-NAME."""

ALONE: Final = ("verifiable-producer",)
"""Whose output goes on when its main method is left, which would be heard in that of the next tool."""

PATIENCE_S: Final = 60.0

Run = Callable[[str, list[str], str], CompletedProcess[str]]


def pk_tools(folder: Path, *, compatible: bool) -> Run:
    """Runs pk-* in processes of their own, with nothing around that would set defaults."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PK_")}
    environment["HOME"] = str(folder)
    if compatible:
        environment["PK_COMPAT"] = "3.9"

    def run(tool: str, words: list[str], stdin: str) -> CompletedProcess[str]:
        return commands.run(TOOLS[tool][0], words, stdin=stdin, environment=environment, folder=folder)

    return run


def kafka_tools(java_tool: JavaTool) -> Run:
    """Runs kafka-* in one JVM."""

    def run(tool: str, words: list[str], stdin: str) -> CompletedProcess[str]:
        alone = tool in ALONE or "--enable-systest-events" in words
        return java_tool(TOOLS[tool][1], *words, stdin=stdin, alone=alone)

    return run


def perform(
    session: Session, stage: Stage, bootstrap: str, run: Run, *, ours: bool, compatible: bool
) -> list[tuple[Command, Answer, CompletedProcess[str]]]:
    """Run a whole file, and return what was answered."""
    answers = []
    with contextlib.ExitStack() as members:
        for item in session.items:
            if isinstance(item, Step):
                _step(item, stage, bootstrap, members)
                continue
            tool, *words = shlex.split(stage.real(item.text))
            expected = item.expected(ours=ours, compatible=compatible)
            deadline = time.monotonic() + PATIENCE_S
            if RECORD and item.eventually:
                time.sleep(2)  # nobody knows yet what to wait for
            while True:
                done = run(tool, words, stage.real(item.stdin))
                answer = Answer(stage.shown(done.stdout, item), done.returncode)
                if RECORD or not item.eventually or answer == expected or time.monotonic() > deadline:
                    break
            answers.append((item, answer, done))
    return answers


def _step(step: Step, stage: Stage, bootstrap: str, members: contextlib.ExitStack) -> None:
    words = [stage.real(each) for each in step.words]
    if step.verb == "file":
        (stage.folder / words[0]).write_text(stage.real(step.text))
    elif step.verb == "member":
        members.enter_context(member(bootstrap, words[0], *words[1:]))
    elif step.verb == "leave":
        members.close()
    elif step.verb == "gone":
        with talking(bootstrap) as talk:
            wait_for(
                lambda: words[0] not in {each.name for each in talk.admin.list_topics()},
                what=f"{words[0]} to be deleted",
            )


def complaint(command: Command, expected: Answer, answer: Answer, done: CompletedProcess[str]) -> str:
    """What is wrong with an answer, or nothing."""
    where = f"\nline {command.line}: $ {command.text}\n"
    if answer != expected:
        found = (
            first_difference(answer.stdout, expected.stdout)
            or f"status {answer.status}, not {expected.status}"
        )
        return f"{where}  {found}\n  stdout: {done.stdout[-600:]!r}\n  stderr: {done.stderr[-600:]!r}"
    return ""


def bad_manners(command: Command, done: CompletedProcess[str]) -> str:
    """What is wrong with how pk-* failed, or nothing: it says why, in a line."""
    if "Traceback" in done.stderr or (done.returncode and not done.stdout and not done.stderr):
        return f"\nline {command.line}: $ {command.text}\n  stderr: {done.stderr[-600:]!r}"
    return ""


_NIGHTLY: Final = [pytest.mark.nightly]
MAKES: Final = [
    pytest.param("pk", "pkafka", id="pk-on-pkafka"),
    pytest.param("kafka-tools", "kafka", id="kafka-tools-on-kafka", marks=_NIGHTLY),
    pytest.param("kafka-tools", "pkafka", id="kafka-tools-on-pkafka", marks=_NIGHTLY),
    pytest.param("pk", "kafka", id="pk-on-kafka", marks=_NIGHTLY),
    pytest.param("pk-compatible", "pkafka", id="pk-compatible-on-pkafka", marks=_NIGHTLY),
    pytest.param("pk-compatible", "kafka", id="pk-compatible-on-kafka", marks=_NIGHTLY),
]


def runs() -> list[object]:
    """Every file with every make and system; those about what pkafka does not serve on Apache Kafka alone."""
    return [
        pytest.param(*make.values, path, id=f"{make.id}-{path.stem}", marks=make.marks)
        for make in MAKES
        for path in sessions()
        if make.values[1] == "kafka" or not read_session(path).is_for_kafka_alone
    ]


@pytest.mark.parametrize(("make", "name", "path"), runs())
@pytest.mark.timeout(300)
def test_session(request: pytest.FixtureRequest, tmp_path: Path, path: Path, make: str, name: str) -> None:
    system: System | None = request.getfixturevalue(name)
    if system is None:
        pytest.skip(f"PKAFKA_INTEROP_SYSTEMS leaves {name} out")
    session = read_session(path)
    ours, compatible = make != "kafka-tools", make == "pk-compatible"
    run = (
        pk_tools(tmp_path, compatible=compatible)
        if ours
        else kafka_tools(request.getfixturevalue("java_tool"))
    )
    letter = {"pk": "P", "pk-compatible": "C", "kafka-tools": "K"}[make]
    stage = Stage(
        session,
        letter,
        bootstrap=system.bootstrap,
        log_dir=system.log_dir,
        folder=tmp_path,
        zookeeper=getattr(system, "zookeeper", None),
    )
    answers = perform(session, stage, system.bootstrap, run, ours=ours, compatible=compatible)
    if RECORD and name == "kafka":
        _record(session, answers, make)
        return
    complaints = ""
    for command, answer, done in answers:
        complaints += complaint(command, command.expected(ours=ours, compatible=compatible), answer, done)
        complaints += bad_manners(command, done) if ours else ""
    assert not complaints, complaints


def test_the_session_is_long_and_its_files_are_as_they_would_be_recorded() -> None:
    files = [read_session(path) for path in sessions()]
    assert sum(len(each.commands) for each in files) >= 500
    assert {command.text.split()[0] for each in files for command in each.commands} == set(TOOLS)
    for each in files:
        assert not first_difference(each.render(), each.path.read_text()), each.path
    names = [name for each in files for name in each.names if name != "nowhere"]
    assert len(names) == len(set(names)), "two files on one cluster use one name"


def test_every_difference_is_explained_and_no_explanation_is_left_over() -> None:
    used = set()
    for path in sessions():
        for command in read_session(path).commands:
            explained = command.reason is not None
            assert explained == command.needs_reason, f"{path.name}:{command.line}: {command.text}"
            used.add(command.reason)
    headings = set(re.findall(r"^## ([a-z0-9-]+)$", DIFFERENCES.read_text(), re.MULTILINE))
    assert headings == used - {None}


def _record(
    session: Session, answers: list[tuple[Command, Answer, CompletedProcess[str]]], make: str
) -> None:
    for command, answer, _ in answers:
        if make == "kafka-tools":
            command.kafka = answer
        elif make == "pk-compatible":
            command.compatible_status = answer.status
        else:
            command.status = answer.status
            command.is_same = answer.stdout == command.kafka.stdout
            derived = [
                name for name, derive in DERIVED.items() if derive(command.kafka.stdout) == answer.stdout
            ]
            if derived and not command.is_same:
                command.reason = derived[0]
            command.stdout = answer.stdout
        if make != "kafka-tools" and not command.needs_reason:
            command.reason = None
        elif make != "kafka-tools":
            command.reason = command.reason or "unexplained"
    session.path.write_text(session.render())
