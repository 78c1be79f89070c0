"""From principals to users: the answers are those of Kafka's KerberosShortNamer."""

import pytest

from pkafka.security.kerberos_rules import KerberosRuleError, LocalNameRules, NoLocalNameError

MANY = [
    "RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g",
    "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g",
    "RULE:[2:$1@$0](.*@OTHER.REALM)s/@.*/-other/",
    "DEFAULT",
]


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (["DEFAULT"], "alice@REALM", "alice"),
        (["DEFAULT"], "kafka/host.name@REALM", "kafka"),
        (["DEFAULT"], "alice", "alice"),
        ([], "alice", "alice"),
        (MANY, "App.service-name/example.com@REALM", "service-name"),
        (MANY, "App.service-name@REALM", "service-name"),
        (MANY, "user/host@OTHER.REALM", "user-other"),
        (MANY, "user/host@REALM", "user"),
        (["RULE:[1:$1]/L"], "User@REALM", "user"),
        (["RULE:[1:$1]/U"], "User@REALM", "USER"),
        (["RULE:[1:$1]L"], "User@REALM", "user"),
        (["RULE:[2:$1](Theuser.*)s/Theuser(.*)/$1/g/L"], "TheuserA/h@REALM", "a"),
        (["RULE:[1:$1.$0]"], "u@R", "u.R"),
        (["RULE:[2:$1;$2](^.*;admin$)s/;admin$//"], "u/admin@R", "u"),
        (["RULE:[1:$1]s/a/b/"], "aaa@R", "baa"),
        (["RULE:[1:$1]s/a/b/g"], "aaa@R", "bbb"),
        (["RULE:[1:$1]s/a//g"], "aba@R", "b"),
        (["RULE:[1:fixed]"], "any@R", "fixed"),
        (["RULE:[2:$1]", "RULE:[1:$1](nobody)", "DEFAULT"], "u@REALM", "u"),
        ([" DEFAULT "], "u@REALM", "u"),
        (["RULE:[1:$1]s/(u)/\\$$1x/"], "u@REALM", "$ux"),
    ],
)
def test_users(rules: list[str], principal: str, user: str) -> None:
    assert LocalNameRules("REALM", rules).user(principal) == user


@pytest.mark.parametrize(
    ("rules", "principal", "problem"),
    [
        (["DEFAULT"], "u@OTHER", "no rule of sasl.kerberos.principal.to.local.rules is for u@OTHER"),
        (["RULE:[1:$1](x)"], "u@REALM", "no rule"),
        ([], "u@REALM", "no rule"),
        (["RULE:[1:$1@$0]"], "u@REALM", "no plain name"),
        (["RULE:[2:$1/$2]"], "u/h@REALM", "no plain name"),
        (["RULE:[1:$2]"], "u@REALM", "a part that it has not"),
        (["RULE:[1:$]"], "u@REALM", "a part that it has not"),
        (["RULE:[1:$1]s/u/$1/"], "u@REALM", "a replacement that is none"),
        (["DEFAULT"], "a/b/c@REALM", "malformed"),
        (["DEFAULT"], "a@b@REALM", "malformed"),
    ],
)
def test_no_user(rules: list[str], principal: str, problem: str) -> None:
    with pytest.raises(NoLocalNameError, match=problem):
        LocalNameRules("REALM", rules).user(principal)


@pytest.mark.parametrize(
    "rule",
    ["", "default", "RULE:", "RULE:[1:$1", "RULE:[:$1]", "RULE:[1:$1](()", "RULE:[1:$1]s/a/b", "DEFAULT/L"],
)
def test_what_is_no_rule(rule: str) -> None:
    with pytest.raises(KerberosRuleError):
        LocalNameRules("REALM", [rule])
