"""Commands with actions: --help beside an action shows what goes with that action, with an example that works."""

import shlex

import click
import pytest

from pkafka.cli import configs, consumer_groups, reassign_partitions, topics
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.kafka_command import KafkaCommand

COMMANDS: list[KafkaCommand] = [
    configs.main,
    consumer_groups.main,
    reassign_partitions.main,
    topics.main,
]
EVERY = [
    pytest.param(command, action, id=f"{command.name} --{action}")
    for command in COMMANDS
    for action in (command.actions.examples if command.actions else ())
]


def _help(command: KafkaCommand, args: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert command.run(args) == ExitStatus.OK
    return capsys.readouterr().out


def test_help_of_an_action_leaves_out_what_goes_with_others(capsys: pytest.CaptureFixture[str]) -> None:
    shown = _help(topics.main, ["--create", "--help"], capsys)
    assert shown.startswith("Usage: pk-topics --create [OPTIONS]\n\n  Create a topic.\n")
    for flag in ("--topic", "--partitions", "--config", "--bootstrap-server", "--timeout", "-h, --help"):
        assert f"\n  {flag} " in shown
    for flag in ("--create", "--delete", "--list", "--yes", "--topic-id", "--delete-config"):
        assert f"\n  {flag} " not in shown
    assert "Example:\n    pk-topics --bootstrap-server localhost:9092 --create --topic orders " in shown
    assert shown.endswith("All actions: pk-topics --help\n")


@pytest.mark.parametrize(
    ("args", "shown", "left_out"),
    [
        (["--reset-offsets", "-h"], ["--to-earliest", "--execute", "--export"], ["--members", "--max-lag"]),
        (["-help", "-describe"], ["--members", "--max-lag", "--watch"], ["--to-earliest", "--topic"]),
        (["--help", "--list"], ["--state", "--type"], ["--group", "--verbose", "--dry-run"]),
    ],
)
def test_the_action_may_stand_anywhere_and_flags_be_written_as_for_kafkas_tools(
    args: list[str], shown: list[str], left_out: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = _help(consumer_groups.main, args, capsys)
    assert [flag for flag in shown if f"\n  {flag} " not in text] == []
    assert [flag for flag in left_out if f"\n  {flag} " in text] == []


@pytest.mark.parametrize("args", [[], ["--list", "--create"]], ids=["none", "two"])
def test_help_without_one_action_is_of_all(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    whole = _help(topics.main, ["--help"], capsys)
    assert _help(topics.main, [*args, "--help"], capsys) == whole
    assert "--delete" in whole
    assert "--create" in whole
    assert "Example" not in whole


@pytest.mark.parametrize(("command", "action"), EVERY)
def test_an_example_is_understood(
    command: KafkaCommand, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.actions is not None
    example = shlex.split(command.actions.example(command.name or "", action))
    assert example[0] == command.name
    assert command.run([*example[1:], "--show-config"]) == ExitStatus.OK, capsys.readouterr().err


@pytest.mark.parametrize(("command", "action"), EVERY)
def test_help_shows_the_flags_of_the_example(
    command: KafkaCommand, action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.actions is not None
    flags = {each for each in shlex.split(command.actions.examples[action]) if each.startswith("--")}
    shown = _help(command, [f"--{action}", "--help"], capsys)
    assert [flag for flag in flags if f"\n  {flag} " not in shown] == [f"--{action}"]
    assert all(f"--{other} [OPTIONS]" not in shown for other in command.actions.examples if other != action)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_only_flags_of_the_command_belong_to_its_actions(command: KafkaCommand) -> None:
    assert command.actions is not None
    known = {each for option in command.params if isinstance(option, click.Option) for each in option.opts}
    named = {*command.actions.examples, *command.actions.belongs}
    assert {f"--{each}" for each in named} <= known
    assert {each for actions in command.actions.belongs.values() for each in actions} <= set(
        command.actions.examples
    )


def test_wrong_use_of_an_action_points_at_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert topics.main.run(["--create", "--bootstrap-server", "h:1"]) == ExitStatus.USAGE
    assert capsys.readouterr().err.endswith("(see pk-topics --create --help)\n")
    assert topics.main.run(["--create", "--list", "--bootstrap-server", "h:1"]) == ExitStatus.USAGE
    assert capsys.readouterr().err.endswith("(see pk-topics --help)\n")


@pytest.mark.parametrize(
    "args",
    [
        ["--list", "--yes"],
        ["--create", "--topic", "t", "--exclude-internal"],
        ["--describe", "--dry-run"],
        ["--delete", "--topic", "t", "--partitions", "3"],
    ],
    ids=" ".join,
)
def test_what_help_leaves_out_is_refused(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert topics.main.run([*args, "--bootstrap-server", "h:1"]) == ExitStatus.USAGE
    assert "can't be used with option" in capsys.readouterr().err
