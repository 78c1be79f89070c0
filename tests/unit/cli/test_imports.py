"""What the quick paths import: a tool that lists topics must not pay for what it does not use."""

import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from pkafka.protocol.schema import Message
from pkafka.records.loops import COMPILED
from tests.fakes.broker import FakeBroker

HEAVY = (
    "asyncio",
    "rich",
    "kazoo",
    "msgpack",
    "prometheus_client",
    "pkafka.server",
    "pkafka.records",
    "logging",
    "hashlib",  # with OpenSSL
    "stringprep",  # half of encodings.idna
    "difflib",
    "shutil",  # with the codecs of archives
    "ast",  # of inspect, which click imports
    "platform",  # of uuid, as well
)
# What listing topics has no use for, of what an admin client can do else.
NOT_TOPICS = (
    *("dataclasses", "pkafka.net", "pkafka.tools", "pkafka.cli.kit.confirmation", "pkafka.cli.kit.spelling"),
    *("pkafka.clients.config.consumer", "pkafka.clients.config.producer"),
    *("pkafka.clients.admin.client", "pkafka.clients.admin.groups", "pkafka.clients.admin.scram"),
    "pkafka.clients.admin.results",
)
WITHOUT_CLUSTER = (*HEAVY, "pkafka.clients", "pkafka.protocol", "socket", "json", "base64")
PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
COMMANDS: dict[str, str] = PROJECT["scripts"]
PROGRAM = """
import sys
from pkafka.cli.topics import main
status = main.run(sys.argv[1:])
heavy = [name for name in {heavy!r} if name in sys.modules]
assert not heavy, heavy
sys.exit(status)
"""


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["--list"]], ids=lambda each: each[0])
def test_quick_paths_import_little(args: list[str]) -> None:
    with FakeBroker({"t": 1}) as broker:
        heavy = (*HEAVY, *NOT_TOPICS) if args == ["--list"] else WITHOUT_CLUSTER
        if args == ["--list"]:
            args = [*args, "--bootstrap-server", broker.bootstrap]
        command = [sys.executable, "-c", PROGRAM.format(heavy=heavy), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def modules_of_python() -> int:
    """How many modules Python itself has when it begins."""
    run = [sys.executable, "-c", "import sys; print(len(sys.modules))"]
    return int(subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_imports_little(command: str, modules_of_python: int) -> None:
    module, _, function = COMMANDS[command].partition(":")
    program = PROGRAM.replace("pkafka.cli.topics import main", f"{module} import {function} as main")
    program = program.replace("sys.exit(status)", "sys.stderr.write(str(len(sys.modules)))")
    run = [sys.executable, "-c", program.format(heavy=WITHOUT_CLUSTER), "--help"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    # A command starts in four times the time of Python: time depends on the machine, the work does not.
    assert int(done.stderr) <= 4 * modules_of_python


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_a_process_that_only_told_about_itself_says_all_of_it_and_ends_at_once(flag: str) -> None:
    program = """
import os
from pkafka.cli.topics import main
class Witness:
    def __del__(self, write=os.write):
        write(1, b"taken apart")
os.witness = Witness()
main()
"""
    run = [sys.executable, "-c", program, flag]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("3.9.1" if flag == "--version" else "Show this message and exit.")
    # What somebody wants to be done at the end is done.
    waiting = program.replace("os.witness = Witness()", "import atexit; atexit.register(print, 'the end')")
    done = subprocess.run([*run[:2], waiting, flag], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "the end")


def test_an_output_that_is_full_is_not_passed_over() -> None:
    run = [sys.executable, "-m", "pkafka.cli.topics", "--help"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "No space left on device" in done.stderr


def test_a_command_of_several_modules_runs_as_one_module_does() -> None:
    package = Path(__file__).parents[3] / "pkafka" / "cli"
    commands = {target.partition(":")[0].rpartition(".")[2] for target in COMMANDS.values()}
    packages = {each.parent.name for each in package.glob("*/__init__.py")} & commands
    assert packages == {each.parent.name for each in package.glob("*/__main__.py")}
    run = [sys.executable, "-m", "pkafka.cli.topics", "--version"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "3.9.1\n"), done.stderr


@pytest.mark.parametrize("package", ["pkafka.clients.admin", "pkafka.clients.config"])
def test_packages_that_load_by_and_by_have_what_they_say_and_no_more(package: str) -> None:
    module = importlib.import_module(package)
    assert [getattr(module, name).__name__ for name in module.__all__] == module.__all__
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Nothing'"):
        _ = module.Nothing


def test_groups_are_listed_without_a_consumer() -> None:
    def list_groups(_request: Message, _version: int) -> ListGroupsResponse:
        return ListGroupsResponse(groups=[ListedGroup(group_id="g", protocol_type="consumer")])

    with FakeBroker({"t": 1}) as broker:
        broker.handlers[ApiKey.LIST_GROUPS] = list_groups
        program = PROGRAM.replace("cli.topics", "cli.consumer_groups")
        program = program.format(heavy=(*HEAVY, "pkafka.clients.consumer", "pkafka.clients.producer"))
        run = [sys.executable, "-c", program, "--list", "--bootstrap-server", broker.bootstrap]
        done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "g\n"), done.stderr


@pytest.mark.parametrize("group", [[], ["--group", "g"]], ids=["alone", "group"])
def test_reading_imports_what_reads(group: list[str]) -> None:
    heavy = [
        *("asyncio", "rich", "kazoo", "msgpack", "pkafka.server", "pkafka.clients.admin"),
        *("pkafka.clients.serialization", "pkafka.clients.producer", "pkafka.clients.consumer.pool"),
        "pkafka.clients.consumer.assignors.different_subscriptions",  # for who leads the group
        *(["pkafka.records._plain"] if COMPILED else []),
        *([] if group else ["logging", "pkafka.clients.consumer.coordinator"]),
    ]
    with FakeBroker({"t": 1}) as broker:
        program = PROGRAM.replace("cli.topics", "cli.console_consumer").format(heavy=heavy)
        args = ["--bootstrap-server", broker.bootstrap, "--topic", "t", "--max-messages", "0", *group]
        run = [sys.executable, "-c", program, *args]
        done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["pkafka.testing", "pkafka.tools.servers.local_broker"])
def test_the_pytest_plugin_costs_other_projects_nothing(module: str) -> None:
    program = f"""
import sys, pytest, subprocess, tempfile, contextlib, select, shutil
before = set(sys.modules)
import {module}
assert {{name for name in set(sys.modules) - before}} <= {{
    "pkafka", "pkafka.tools", "pkafka.tools.servers", "pkafka.tools.servers.local_broker", "pkafka.testing"
}}, set(sys.modules) - before
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
