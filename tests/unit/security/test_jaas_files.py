"""Files of login modules: what is read from them, what is not, and which line is to blame."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pkafka.clients.config import ClientConfig
from pkafka.clients.config.security import login_module
from pkafka.errors import ConfigError
from pkafka.security.jaas import JaasError
from pkafka.security.jaas_files import jaas_file, read_sections
from pkafka.server.config.broker_config import BrokerConfig
from pkafka.server.config.sasl import sasl_listener

Environment = Callable[[str], Path]
TEXT = """
// of the brokers
KafkaServer {
    a.PlainLoginModule required
        username="admin" password="x;{}" user_admin="x;{}"; /* two of them */
    a.ScramLoginModule sufficient;
};

"clients.KafkaServer" { a.PlainLoginModule required user_alice="secret"; };
KafkaClient { com.sun.security.auth.module.Krb5LoginModule required
    useKeyTab=true keyTab="${dir}${/}k" principal="p@R"; };
Empty { };
"""
CLIENT = {"bootstrap.servers": "h:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
BROKER = {
    "broker.id": "0",
    "listeners": "CLIENTS://h:1,OTHERS://h:2,INSIDE://h:3",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,OTHERS:SASL_PLAINTEXT,INSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "sasl.enabled.mechanisms": "PLAIN",
}


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Has ``KAFKA_OPTS`` name a file with a text."""

    def write(text: str) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))} jaas.conf"
        path.write_text(text)
        options = f"-Xmx1g '-Djava.security.auth.login.config={path}' -Ddir=/etc"
        monkeypatch.setenv("KAFKA_OPTS", options)
        return path

    return write


def test_sections_and_their_modules(environment: Environment) -> None:
    path = environment(TEXT)
    file = jaas_file()
    assert file is not None
    assert file.path == str(path)
    assert list(file.sections) == ["KafkaServer", "clients.KafkaServer", "KafkaClient", "Empty"]
    assert [module.simple_name for module in file.sections["KafkaServer"]] == [
        "PlainLoginModule",
        "ScramLoginModule",
    ]
    assert file.sections["KafkaServer"][0].options["password"] == "x;{}"
    assert file.sections["KafkaClient"][0].options["keyTab"] == "/etc/k"
    assert "secret" not in repr(file)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\nA { m required a=b };", "line 2: the login module m has a stray sign among the options"),
        ("A {\n m required a=\n1; };", "line 2: the login module m has no value for option 'a'"),
        ("A {\n m needed; };", "line 2: the login module m has no control flag"),
        ("A { m required; }\n", "line 2: ';' is missing behind the section"),
        ("A { m required;\n", "line 2: '}' is missing behind the last login module"),
        ("A m required;", "line 1: '{' is missing behind the name of a section"),
        ("A { m required; };\n; B { };", "line 2: the name of a section should be where ';' is"),
        ("A { m required; };\nA { };", "line 2: has the section A twice"),
        (
            'A {\n\n m required a="${b}SECRET"; };',
            "line 3: refers to the property b; add -Db=... to KAFKA_OPTS",
        ),
    ],
)
def test_what_is_no_such_file(text: str, problem: str) -> None:
    with pytest.raises(JaasError, match="line") as failed:
        read_sections(text, {})
    assert str(failed.value).startswith(problem)
    assert "SECRET" not in str(failed.value)


def test_the_listeners_own_section_comes_first_and_its_own_key_before_both(environment: Environment) -> None:
    environment(TEXT)
    config = BrokerConfig(BROKER)
    assert sasl_listener(config, "CLIENTS").modules["PLAIN"].options == {"user_alice": "secret"}
    assert "user_admin" in sasl_listener(config, "OTHERS").modules["PLAIN"].options
    own = {"listener.name.clients.plain.sasl.jaas.config": 'a.PlainLoginModule required user_bob="b";'}
    assert sasl_listener(config.replace(own), "CLIENTS").modules["PLAIN"].options == {"user_bob": "b"}


def test_what_a_broker_says_of_a_file_that_lacks_something(environment: Environment) -> None:
    path = environment("KafkaClient { };")
    with pytest.raises(ConfigError) as failed:
        BrokerConfig(BROKER)
    key = "listener.name.clients.plain.sasl.jaas.config"
    told = f"{path} (java.security.auth.login.config in KAFKA_OPTS) has no section"
    told += " 'clients.KafkaServer' or 'KafkaServer'"
    assert str(failed.value).startswith(f"{key}: is missing, and {told}")
    environment("KafkaServer { a.ScramLoginModule required; };")
    with pytest.raises(
        ConfigError, match=r"section 'KafkaServer' of .* has no PlainLoginModule; add it there"
    ):
        BrokerConfig(BROKER)
    path = environment("\nKafkaServer {")
    with pytest.raises(ConfigError, match=r"config: .* jaas.conf, line 2: '}' is missing"):
        BrokerConfig(BROKER)
    environment("").unlink()
    with pytest.raises(ConfigError, match="in KAFKA_OPTS, which cannot be read: No such file"):
        BrokerConfig(BROKER)


def test_a_clients_section(environment: Environment) -> None:
    environment('KafkaClient { a.PlainLoginModule required username="u" password="p"; };')
    assert login_module(ClientConfig.from_properties(CLIENT)).options == {"username": "u", "password": "p"}
    own = {"sasl.jaas.config": 'a.PlainLoginModule required username="v" password="p";'}
    assert login_module(ClientConfig.from_properties({**CLIENT, **own})).options["username"] == "v"
    environment("KafkaServer { };")
    with pytest.raises(
        ConfigError, match=r"sasl.jaas.config: is missing, and .* has no section 'KafkaClient'"
    ):
        ClientConfig.from_properties(CLIENT)
