"""Texts and files of Java's as pkafka/security reads them: JAAS by Kafka's own parser, stores by keytool."""

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkafka.security.jaas import JaasError, parse_jaas
from pkafka.security.stores import WrongPasswordError, certificates, key_entry
from tests.certificates import Authority
from tests.interop.kafka import java_program
from tests.interop.line_oracle import LineOracle, line_oracle

pytestmark = pytest.mark.nightly

PIECES = [
    *(
        "a.B",
        "required",
        "REQUISITE",
        "a=b",
        "key=",
        "=",
        '"',
        "'",
        ";",
        " ",
        "\n",
        "\\",
        "/",
        "//",
        "/*",
        "*/",
    ),
    *(
        'k="v w"',
        "k='v'",
        r'k="\"\101\n"',
        "k=1",
        "k=-",
        "k=v-1.2_$",
        "é",
        "k=\xa0",
        "{",
        "9",
        "-",
        ".",
        "#",
        "k",
        ",",
    ),
]
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=5).map(lambda each: f"a.B required {' '.join(each)};"),
    st.text("ab\"'\\/*=; \n017x", max_size=12).map(lambda each: f'a.B required k="{each}";'),
)
MUCH = settings(
    max_examples=1_500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def java(kafka_classpath: str) -> Iterator[LineOracle]:
    with line_oracle(kafka_classpath, "JaasOracle") as oracle:
        yield oracle


@MUCH
@given(text=TEXTS)
def test_jaas_texts_are_read_as_by_kafka(java: LineOracle, text: str) -> None:
    answer = java.ask("=" + base64.b64encode(text.encode()).decode())
    theirs = None
    if answer != "!":
        name, *words = [base64.b64decode(each[1:]).decode() for each in answer.split(" ")]
        theirs = (name, dict(zip(words[::2], words[1::2], strict=True)))
    try:
        module = parse_jaas(text)
    except JaasError:
        ours = None
    else:
        ours = (module.class_name, dict(module.options))
    assert ours == theirs, text


@pytest.mark.parametrize("store_type", ["JKS", "PKCS12"])
def test_stores_that_keytool_made(tmp_path: Path, store_type: str) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    trust, keys = tmp_path / "trust", tmp_path / "keys"
    common = ("-storetype", store_type, "-storepass", "changeit", "-noprompt")
    keytool("-importcert", "-alias", "ca", "-file", tmp_path / "ca.pem", "-keystore", trust, *common)
    name = ("-dname", "CN=client", "-alias", "mine", "-keyalg", "RSA", "-keystore", keys, *common)
    other = ("-keypass", "another") if store_type == "JKS" else ()
    keytool("-genkeypair", *name, *other)
    for declared in ("JKS", "PKCS12"):
        assert certificates(trust.read_bytes(), declared, "changeit") == [authority.der]
        with pytest.raises(WrongPasswordError):
            certificates(trust.read_bytes(), declared, "wrong")
        entry = key_entry(keys.read_bytes(), declared, "changeit", "another" if store_type == "JKS" else None)
        assert entry.pem.count(b"BEGIN PRIVATE KEY") == entry.pem.count(b"BEGIN CERTIFICATE") == 1


def keytool(*words: object) -> None:
    program = Path(java_program("java")).with_name("keytool")
    subprocess.run([program, *map(str, words)], check=True, capture_output=True, timeout=60)
