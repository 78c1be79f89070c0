"""``sasl.kerberos.principal.to.local.rules`` as Kafka's own KerberosShortNamer has them, by thousands of rules."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pkafka.security.kerberos_rules import KerberosRuleError, LocalNameRules, NoLocalNameError
from tests.interop.line_oracle import LineOracle, line_oracle

pytestmark = pytest.mark.nightly

FORMATS = st.sampled_from(["$1", "$1@$0", "$2", "$1;$2", "x", "$1$", "$3", "$0", "$1/$2", "", "$12"])
MATCHES = st.sampled_from(["", "(.*)", "(a.*)", "(.*@REALM)", "(^.*;admin$)", "([)", "()", "(b)"])
EDITS = st.sampled_from(
    [
        "",
        "s/a/b/",
        "s/a/b/g",
        "s/@.*//",
        "s/(.)(.*)/$2$1/",
        "s/a//g",
        "s///",
        "s/a/$1/",
        "s/(a/b/",
        "s/a/\\$/g",
        "s/a/",
    ]
)
CASES = st.sampled_from(["", "/L", "/U", "L", "U", "/", "/X"])
RULES = st.one_of(
    st.sampled_from(["DEFAULT", "default", "", "RULE:", "DEFAULT/L", "RULE:[1]", "RULE:[:$1]"]),
    st.builds(
        lambda parts, *pieces: f"RULE:[{parts}:{pieces[0]}]{''.join(pieces[1:])}",
        st.sampled_from([0, 1, 2, 3]),
        FORMATS,
        MATCHES,
        EDITS,
        CASES,
    ),
)
NAMES = st.one_of(
    st.sampled_from(
        [
            "alice@REALM",
            "aa/admin@REALM",
            "b@OTHER",
            "a",
            "a/b",
            "a/b/c@REALM",
            "a@b@REALM",
            "@REALM",
            "A@REALM",
        ]
    ),
    st.text("aAb/@.", max_size=8),
)


@pytest.fixture(scope="module")
def java(kafka_classpath: str) -> Iterator[LineOracle]:
    with line_oracle(kafka_classpath, "KerberosNameOracle") as oracle:
        yield oracle


@settings(max_examples=3_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES, rules=st.lists(RULES, min_size=1, max_size=3))
def test_principals_become_the_same_users(java: LineOracle, name: str, rules: list[str]) -> None:
    try:
        ours = "=" + LocalNameRules("REALM", rules).user(name)
    except KerberosRuleError:
        ours = "no rule"
    except NoLocalNameError:
        ours = "no user"
    assert ours == java.ask("\t".join([name, *rules])), (name, rules)
