"""Values that stand in files, directories and the environment."""

from pathlib import Path

import pytest

from pkafka.connect.config_providers import load_providers, resolved
from pkafka.connect.errors import ConfigError

JAVA = "org.apache.kafka.common.config.provider."


def providers(kind: str, **params: str) -> dict[str, str]:
    return {
        "config.providers": "p",
        "config.providers.p.class": JAVA + kind,
        **{f"config.providers.p.param.{name.replace('_', '.')}": value for name, value in params.items()},
    }


def test_a_file_of_properties(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("user=a\npassword=b\n")
    found = load_providers(providers("FileConfigProvider"))
    path = tmp_path / "secrets"
    assert resolved({"x": f"${{p:{path}:user}}/${{p:{path}:password}}", "y": "1"}, found) == {
        "x": "a/b",
        "y": "1",
    }
    with pytest.raises(ConfigError, match="The value of x refers to"):
        resolved({"x": f"${{p:{path}:other}}"}, found)
    with pytest.raises(ConfigError, match="Could not read properties from file"):
        resolved({"x": f"${{p:{tmp_path}/none:other}}"}, found)


def test_a_file_outside_of_the_allowed_paths_is_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for each in (inside, outside):
        each.mkdir()
        (each / "f").write_text("k=v\n")
    found = load_providers(providers("FileConfigProvider", allowed_paths=str(inside)))
    assert resolved({"x": f"${{p:{inside}/f:k}}"}, found) == {"x": "v"}
    for path in (f"{outside}/f", f"{inside}/../out/f"):
        with pytest.raises(ConfigError, match=r"not within allowed\.paths"):
            resolved({"x": f"${{p:{path}:k}}"}, found)


def test_a_directory_of_values(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret")
    found = load_providers(providers("DirectoryConfigProvider"))
    assert resolved({"x": f"${{p:{tmp_path}:password}}"}, found) == {"x": "secret"}
    with pytest.raises(ConfigError, match="does not have"):
        resolved({"x": f"${{p:{tmp_path}:../password}}"}, found)


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_X", "1")
    monkeypatch.setenv("SECRET_X", "2")
    found = load_providers(providers("EnvVarConfigProvider", allowlist_pattern="CONNECT_.*"))
    assert resolved({"x": "${p:CONNECT_X}"}, found) == {"x": "1"}
    with pytest.raises(ConfigError, match="does not have"):
        resolved({"x": "${p:SECRET_X}"}, found)


def test_a_provider_that_is_not_configured_leaves_the_reference() -> None:
    assert resolved({"x": "${q:a:b}"}, load_providers(providers("EnvVarConfigProvider"))) == {"x": "${q:a:b}"}
    with pytest.raises(ConfigError, match="there are the providers"):
        load_providers({"config.providers": "p", "config.providers.p.class": "com.example.Vault"})
