"""The man pages of files: their examples are read by what they describe, and man has nothing to say against them."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from pkafka.cli.kit.profiles import find_profile
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.keys import broker_keys
from pkafka.tools.cluster.declaration import parse
from scripts import man_pages, regenerate

PAGES = [path for path in regenerate.files() if path.startswith("man/") and not path.endswith(".1")]


def example(name: str) -> str:
    """The last fenced text of a source."""
    text = (man_pages.SOURCES / f"{name}.md").read_text("utf-8")
    found: list[str] = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return found[-1]


def roff(name: str) -> str:
    return (regenerate.ROOT / "man" / name).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_legal_roff(page: str) -> None:
    text = (regenerate.ROOT / page).read_text("utf-8")
    for line in text.splitlines():
        assert not line.startswith("'"), "groff would take this line for a request"
        assert not re.search(r"\{[a-z-]+\}$", line), "a place that nobody filled"
    for section in ("NAME", "DESCRIPTION", "SEE ALSO"):
        assert f"\n.SH {section}\n" in text
    for program, *flags in (
        ["groff", "-man", "-ww", "-Wbreak", "-z"],
        ["mandoc", "-T", "lint", "-W", "error"],
    ):
        if shutil.which(program) is not None:
            done = subprocess.run(
                [program, *flags, page],
                cwd=regenerate.ROOT,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_overview_names_every_command_and_every_variable() -> None:
    text = roff("pkafka.7").replace("\\-", "-")
    for command in dict(regenerate.commands()):
        assert f".TP\n\\fB{command}(1)\\fR\n" in text
    for variable in ("PK_BOOTSTRAP_SERVER", "PK_PROFILE", "PK_COMPAT", "LOG_DIR"):
        assert f"\\fB{variable}\\fR" in text
    for status in (0, 1, 2, 3, 4, 130):
        assert f"\\fB{status}\\fR" in text


def test_every_page_of_a_command_leads_to_the_overview() -> None:
    for command in dict(regenerate.commands()):
        assert roff(f"{command}.1").endswith(".SH SEE ALSO\n.BR pkafka (7)\n")


def test_every_key_of_a_broker_is_named() -> None:
    text = roff("pkafka-server.properties.5").replace("\\-", "-")
    assert [name for name, key in broker_keys().items() if not key.internal and name not in text] == []


def test_the_example_of_a_broker_is_a_broker(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(example("pkafka-server.properties.5"), encoding="utf-8")
    config = BrokerConfig.load(file)
    assert config.warnings == ()
    assert (config.broker_id, config.metrics_port, len(config.log_dirs)) == (1, 9308, 2)


def test_the_example_of_profiles_has_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".pkafka.toml").write_text(example("pkafka-profiles.5"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    chosen, staging = find_profile(None), find_profile("staging")
    assert chosen is not None
    assert chosen.settings == {"bootstrap.servers": "localhost:9092"}
    assert staging is not None
    assert staging.settings["bootstrap.servers"] == "kafka-1.staging:9092,kafka-2.staging:9092"


def test_the_example_of_a_declaration_declares_something() -> None:
    declared = parse(yaml.safe_load(example("pkafka-declaration.5")))
    assert declared.topics["orders"].configs["cleanup.policy"] == "compact,delete"
    assert declared.brokers["1"] == {"log.retention.ms": None}


def test_the_report_has_every_key_of_its_schema() -> None:
    text = roff("pkafka-perf-report.5").replace("\\-", "-")
    schema = json.loads((regenerate.ROOT / "pkafka/cli/schemas/pk-perf-test.run.json").read_text("utf-8"))
    for key in schema["properties"]:
        assert f"\\fB{key} (" in text


def test_an_installation_has_the_pages() -> None:
    project = tomllib.loads((regenerate.ROOT / "pyproject.toml").read_text("utf-8"))
    installed = project["tool"]["setuptools"]["data-files"]
    assert {page.rpartition(".")[2] for page in PAGES} == {"5", "7"}
    for section in "157":
        assert installed[f"share/man/man{section}"] == [f"man/*.{section}"]
