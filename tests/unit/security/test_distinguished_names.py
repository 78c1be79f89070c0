"""Names in certificates as Java 17 wrote them; tests/interop/test_principals_java.py asks for many more."""

import pytest

from pkafka.security.distinguished_names import name_text
from tests.der import Attribute, name_content

CN, COUNTRY, ORGANIZATION, UNIT, UTF8, PRINTABLE = "2.5.4.3", "2.5.4.6", "2.5.4.10", "2.5.4.11", 12, 19


@pytest.mark.parametrize(
    ("oid", "text"),
    [
        (CN, "CN=a b"),
        (COUNTRY, "C=a b"),
        ("2.5.4.7", "L=a b"),
        ("2.5.4.8", "ST=a b"),
        ("2.5.4.9", "STREET=a b"),
        (ORGANIZATION, "O=a b"),
        (UNIT, "OU=a b"),
        ("0.9.2342.19200300.100.1.25", "DC=a b"),
        ("0.9.2342.19200300.100.1.1", "UID=a b"),
        ("2.5.4.4", "2.5.4.4=#0c03612062"),
        ("2.5.4.5", "2.5.4.5=#0c03612062"),
        ("2.5.4.12", "2.5.4.12=#0c03612062"),
        ("1.2.840.113549.1.9.1", "1.2.840.113549.1.9.1=#0c03612062"),
    ],
)
def test_attributes_without_a_name_in_the_rfc_stand_in_digits(oid: str, text: str) -> None:
    assert name_text(name_content([[(oid, UTF8, b"a b")]])) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("", ""),
        (" ", "\\ "),
        (" a  b  ", "\\ a  b\\ \\ "),
        ("#a#", "\\#a\\#"),
        ('a,b+c"d\\e<f>g;h=i', 'a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\=i'),
        ("a/b\t*", "a/b\t*"),
        ("a\0b", "a\\00b"),
        ("é€😀", "é€😀"),
    ],
)
def test_signs_are_escaped(value: str, text: str) -> None:
    assert name_text(name_content([[(CN, UTF8, value.encode())]])) == f"CN={text}"


def test_the_last_part_comes_first_and_values_without_text_stand_in_digits() -> None:
    parts: list[list[Attribute]] = [
        [(COUNTRY, PRINTABLE, b"DE")],
        [],
        [(ORGANIZATION, UTF8, b"o"), (CN, UTF8, b"a")],
        [(UNIT, 4, b"Ab")],
    ]
    assert name_text(name_content(parts)) == "OU=#04024162,O=o+CN=a,C=DE"
    assert name_text(b"") == ""


def test_what_is_cut_short_is_told() -> None:
    whole = name_content([[(CN, UTF8, b"abc")]])
    for size in range(1, len(whole)):
        with pytest.raises((IndexError, ValueError)):
            name_text(whole[:size])
