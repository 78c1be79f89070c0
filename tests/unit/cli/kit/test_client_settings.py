"""Which settings count, where they come from, and what --show-config says of them."""

import json
from pathlib import Path

import pytest

from pkafka.cli import console_consumer, console_producer, producer_perf_test, topics
from pkafka.cli.kit.client_settings import client_settings
from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.cli.kit.profiles import PROJECT_FILE, find_profile
from pkafka.errors import ConfigError

PROFILES = """
default-profile = "local"

[profiles.local]
bootstrap.servers = "local:9092"
linger.ms = 5
"sasl.jaas.config" = "who and what"

[profiles.prod]
bootstrap.servers = ["one:9092", "two:9092"]
enable.idempotence = true
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with profiles, and the current one two below it."""
    for name in ("PK_COMPAT", "PK_BOOTSTRAP_SERVER", "PK_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "project"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / PROJECT_FILE).write_text(PROFILES)
    monkeypatch.chdir(folder / "a" / "b")
    return folder


def test_the_nearest_file_chooses_a_profile(project: Path) -> None:
    found = find_profile(None)
    assert found is not None
    assert (found.name, found.path) == ("local", str(project / PROJECT_FILE))
    assert found.settings == {
        "bootstrap.servers": "local:9092",
        "linger.ms": "5",
        "sasl.jaas.config": "who and what",
    }
    prod = find_profile("prod")
    assert prod is not None
    assert prod.settings == {"bootstrap.servers": "one:9092,two:9092", "enable.idempotence": "true"}
    (project / PROJECT_FILE).write_text("[profiles.x]")
    assert find_profile(None) is None


def test_profiles_of_the_folder_hide_those_of_the_user(project: Path, tmp_path: Path) -> None:
    mine = tmp_path / "config" / "pkafka" / "profiles.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text('default-profile = "mine"\n[profiles.mine]\nacks = 1\n[profiles.prod]\nacks = 0\n')
    prod, own, chosen = find_profile("prod"), find_profile("mine"), find_profile(None)
    assert prod is not None
    assert own is not None
    assert chosen is not None
    assert (prod.path, own.path, chosen.name) == (str(project / PROJECT_FILE), str(mine), "local")
    (project / PROJECT_FILE).unlink()
    chosen = find_profile(None)
    assert chosen is not None
    assert chosen.name == "mine"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[profiles.x", "Expected"),
        ("[profile.x]", "profile is not known; there are default-profile and profiles"),
        ("profiles = 1", "[profiles.NAME] needs a table of settings"),
        ("[profiles.local]\nlinger.ms = 1979-05-27", "linger.ms needs text"),
    ],
)
def test_a_file_that_is_wrong_is_named(project: Path, text: str, problem: str) -> None:
    (project / PROJECT_FILE).write_text(text)
    with pytest.raises(ConfigError) as caught:
        find_profile("local")
    assert str(project / PROJECT_FILE) in str(caught.value)
    assert problem in str(caught.value)


def test_a_profile_that_is_missing_is_refused_with_those_there_are(project: Path) -> None:
    with pytest.raises(ConfigError, match="there are local, prod"):
        find_profile("nope")
    (project / PROJECT_FILE).unlink()
    with pytest.raises(ConfigError, match=r"no \.pkafka\.toml has any"):
        find_profile("nope")


def test_flag_over_property_over_environment_over_file_over_profile(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def servers(**given: object) -> tuple[object, str]:
        found = client_settings(pairs_option="--property", **given)  # type: ignore[arg-type]
        return found["bootstrap.servers"], found.source("bootstrap.servers")

    file = project / "client.properties"
    file.write_text("bootstrap.servers=file:1\n")
    pairs = {"bootstrap.servers": "pair:1"}
    assert servers() == ("local:9092", f"profile local in {project / PROJECT_FILE}")
    assert servers(file=str(file)) == ("file:1", f"file {file}")
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", "env:1")
    assert servers(file=str(file)) == ("env:1", "PK_BOOTSTRAP_SERVER")
    assert servers(file=str(file), pairs=pairs) == ("pair:1", "--property")
    assert servers(file=str(file), pairs=pairs, servers="flag:1") == ("flag:1", "--bootstrap-server")


def test_a_profile_of_the_command_line_is_not_sent_elsewhere_by_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", "env:1")
    monkeypatch.setenv("PK_PROFILE", "prod")
    assert client_settings()["bootstrap.servers"] == "env:1"
    assert client_settings()["enable.idempotence"] == "true"
    assert client_settings(profile="local")["bootstrap.servers"] == "local:9092"


def shown(capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str | None, str]]:
    rows = json.loads(capsys.readouterr().out)["settings"]
    return {row["key"]: (row["value"], row["source"]) for row in rows}


@pytest.mark.usefixtures("project")
def test_show_config_names_every_setting_and_masks_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    assert topics.main.run(["--list", "--show-config", "--output", "json"]) == ExitStatus.OK
    found = shown(capsys)
    assert found["bootstrap.servers"][0] == "local:9092"
    assert found["sasl.jaas.config"][0] == "[hidden]"
    assert found["metadata.max.age.ms"] == ("300000", "default")
    assert found["default.api.timeout.ms"] == ("10000", "command")
    assert console_consumer.main.run(["--topic", "t", "--from-beginning", "--show-config"]) == ExitStatus.OK
    lines = capsys.readouterr().out.splitlines()
    assert "auto.offset.reset=earliest (command)" in lines
    assert "max.poll.records=500 (default)" in lines
    pairs = ["--producer-property", "linger.ms=7"]
    assert console_producer.main.run(["--topic", "t", *pairs, "--show-config"]) == ExitStatus.OK
    assert "linger.ms=7 (--producer-property)" in capsys.readouterr().out.splitlines()
    perf = ["--topic", "t", "--num-records", "1", "--throughput", "1", "--record-size", "1"]
    assert producer_perf_test.main.run([*perf, "--profile", "prod", "--show-config"]) == ExitStatus.OK
    assert "bootstrap.servers=one:9092,two:9092 (profile prod" in capsys.readouterr().out


@pytest.mark.usefixtures("project")
def test_a_wrong_value_is_told_where_it_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--topic", "t", "--producer-property", "linger.ms=soon", "--show-config"]
    assert console_producer.main.run(wrong) == ExitStatus.USAGE
    assert "linger.ms=soon: must be a whole number" in capsys.readouterr().err
