"""``sasl.jaas.config`` as Java reads it."""

import pytest

from pkafka.security.jaas import JaasError, format_jaas, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('username="alice" password="a=b;c {d}"', {"username": "alice", "password": "a=b;c {d}"}),
        ("username=alice password='x y'", {"username": "alice", "password": "x y"}),
        ('username = "alice"\n\tpassword="p"', {"username": "alice", "password": "p"}),
        (
            r'password="quote \" backslash \\ tab \t octal \101 \1234"',
            {"password": 'quote " backslash \\ tab \t octal A S4'},
        ),
        (r'password="\477"', {"password": "'7"}),
        ('a="1" /* a comment; with signs= */ b="2" // another', {"a": "1", "b": "2"}),
        ('a="//" b="/*"', {"a": "//", "b": "/*"}),
        ("a=b-c.d9_$", {"a": "b-c.d9_$"}),
        ('a="é"', {"a": "é"}),
        ('a="ends with the line\n b="2"', {"a": "ends with the line", "b": "2"}),
        ("", {}),
    ],
)
def test_options(options: str, expected: dict[str, str]) -> None:
    module = parse_jaas(f"{PLAIN} required {options}\n;")
    assert module.options == expected
    assert (module.class_name, module.simple_name) == (PLAIN, "PlainLoginModule")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        (PLAIN, "no control flag"),
        (f"{PLAIN} need a=b;", "no control flag"),
        (f'{PLAIN} required password="TOPSECRET"', "does not end with a semicolon"),
        (f"{PLAIN} required password=1234;", "no value for option 'password'"),
        (f"{PLAIN} required password;", "no value for option 'password'"),
        (f'{PLAIN} required password="TOPSECRET" =;', "stray sign"),
        (f'{PLAIN} required a=b; {PLAIN} required password="TOPSECRET";', "more than one login module"),
        ("com.sun.security.auth.module.JndiLoginModule required a=b;", "refused for safety"),
        ("com.sun.security.auth.module.LdapLoginModule required a=b;", "refused for safety"),
    ],
)
def test_what_is_no_login_module(text: str, problem: str) -> None:
    with pytest.raises(JaasError, match=problem) as caught:
        parse_jaas(text)
    assert "TOPSECRET" not in str(caught.value)


def test_no_secret_is_shown() -> None:
    assert "TOPSECRET" not in repr(parse_jaas(f'{PLAIN} Required password="TOPSECRET";'))


def test_what_is_written_is_read_back() -> None:
    options = {"username": "alice", "password": 'a"b\\c=d;/*é', "user_a.b-c": "//"}
    module = parse_jaas(format_jaas(PLAIN, options))
    assert (module.class_name, module.options) == (PLAIN, options)
