"""Names in certificates and rules for them, read as Java and Apache Kafka read them: many, by fixed chance."""

import base64
import random
from collections.abc import Iterator
from typing import Final

import pytest

from pkafka.security.distinguished_names import name_text
from pkafka.security.principal_rules import NoRuleError, PrincipalRules, RuleError
from tests.der import Attribute, element, name_content
from tests.interop.line_oracle import LineOracle, line_oracle

pytestmark = pytest.mark.nightly

OIDS: Final = (
    *("2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11", "2.5.4.12"),
    *("1.2.840.113549.1.9.1", "0.9.2342.19200300.100.1.25", "2.5.29.500000"),
)
TAGS: Final = (12, 12, 12, 19, 20, 22, 27, 30, 28, 4)
SIGNS: Final = " \r\n\taBé😀,=+<>#;\"\\/\0*\xa0'"
PIECES: Final = (
    *("RULE:", "DEFAULT", ",", " ", "/", "L", "U", "(.*)", "(a)", ".*", "CN=", "$1", "$2", "$12", "$0"),
    *("\\$", "\\/", "\\", "$", "${n}", "(?<n>x?)", "[", "a", "B", "x", "(.*),(.*)"),
)
NAMES: Final = ("CN=a,O=B", "a", "", "xa", "CN=Duke, OU=S", "aB")


@pytest.fixture(scope="module")
def java(kafka_classpath: str) -> Iterator[LineOracle]:
    with line_oracle(kafka_classpath, "PrincipalOracle") as started:
        yield started


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def answer(java: LineOracle, *words: str) -> str | None:
    """The text, or None for an error."""
    said = java.ask(" ".join(words))
    return base64.b64decode(said[1:]).decode() if said.startswith("=") else None


def test_distinguished_names(java: LineOracle) -> None:
    chance = random.Random(5)

    def attribute() -> Attribute:
        value = "".join(chance.choices(SIGNS, k=chance.randrange(8))).encode()
        return chance.choice(OIDS), chance.choice(TAGS), chance.choice((value, chance.randbytes(4)))

    for _ in range(3_000):
        parts = [
            [attribute() for _ in range(chance.choice((1, 1, 1, 2)))] for _ in range(chance.randrange(4))
        ]
        content = name_content(parts)
        assert name_text(content) == answer(java, "name", encoded(element(0x30, content))), parts


def test_rules(java: LineOracle) -> None:
    chance = random.Random(6)
    for _ in range(5_000):
        if chance.random() < 0.5:
            rules = "".join(chance.choices(PIECES, k=chance.randrange(1, 9)))
        else:
            pattern = "".join(chance.choices(PIECES[7:], k=chance.randrange(3)))
            # Of two numbers without a group Apache Kafka escapes the first one twice.
            replacement = "".join(chance.choices(PIECES[10:], k=chance.randrange(2)))
            rules = f"RULE:{pattern}/{replacement}/{chance.choice(('', 'L', 'U'))}"
        name = chance.choice(NAMES)
        try:
            ours: str | None = PrincipalRules(rules).user(name)
        except (RuleError, NoRuleError):
            ours = None
        assert ours == answer(java, "map", encoded(rules.encode()), encoded(name.encode())), (rules, name)
