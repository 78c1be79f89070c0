"""ssl.principal.mapping.rules, with Kafka's answers; tests/interop/test_principals_java.py asks for many more."""

import pytest

from pkafka.security.principal_rules import NoRuleError, PrincipalRules, RuleError

NAME = "CN=Duke, OU=ServiceUsers, O=Org, C=US"


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),.*$/$1/L", "duke"),
        ("RULE:^CN=(.*?),.*$/$1/U", "DUKE"),
        ("RULE:^x/$1/,DEFAULT", NAME),
        ("RULE:CN=(.*?), OU=(.*?),.*/$1@$2/L , DEFAULT", "duke@serviceusers"),
        ("DEFAULT,", NAME),
        ("RULE:.*/x/\nDEFAULT", "xx"),
        ("  RULE:.*/x/,RULE:.*/y/  ", "xx"),
        ("RULE:.*/a\\/b/", "a/ba/b"),
        ("RULE:^.*$/a,b/", "a,b"),
        ("RULE:.*/\\$1/", "$1$1"),
        ("RULE:^(.*)$/$2/", "$2"),
        ("RULE:^CN=(.).*$/$12/", "D2"),
        ("RULE:^(?<n>..).*$/${n}/", "CN"),
        ("RULE:.*//", ""),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_counts(rules: str, user: str) -> None:
    assert PrincipalRules(rules).user(NAME) == user


@pytest.mark.parametrize(
    "rules", ["", "RULE:^CN=(.*?),/$1/", "RULE:^x/$1/", "RULE:.*/$9/", "RULE:.*/$/", "RULE:.*/${n}/"]
)
def test_a_name_for_which_there_is_no_rule(rules: str) -> None:
    with pytest.raises(NoRuleError):
        PrincipalRules(rules).user(NAME)


@pytest.mark.parametrize(
    "rules",
    ["RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:a/b/LU", "default", "DEFAULT;", "RULE:[/b/", "RULE:.*/x/ L"],
)
def test_what_is_no_rule(rules: str) -> None:
    with pytest.raises(RuleError):
        PrincipalRules(rules)
