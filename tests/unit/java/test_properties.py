"""Java's .properties format, by the rules of java.util.Properties.load."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkafka.errors import ConfigError
from pkafka.java.properties import PropertiesError, format_properties, load_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("a:1", {"a": "1"}),
        ("a : = 1", {"a": "= 1"}),
        ("a 1", {"a": "1"}),
        ("a\t1", {"a": "1"}),
        ("  a=1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=x", {"": "x"}),
        ("# a=1\n! b=2\n  # c=3\nd=4", {"d": "4"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=x\\\n   y\\\n\t z", {"a": "xyz"}),
        ("a=x\\\\\nb=2", {"a": "x\\", "b": "2"}),
        ("a=x\\\n# y", {"a": "x# y"}),
        ("a=x\\\n\nb=2", {"a": "x", "b": "2"}),
        ("a=x\\", {"a": "x"}),
        ("a\\=b=1", {"a=b": "1"}),
        ("a\\:b\\ c=1", {"a:b c": "1"}),
        ("a=\\t\\n\\r\\f\\q", {"a": "\t\n\r\fq"}),
        ("a=\\u00e9\\ud83d\\ude00", {"a": "é😀"}),
        ("listeners=PLAINTEXT://localhost:9092", {"listeners": "PLAINTEXT://localhost:9092"}),
        ("a=#no comment", {"a": "#no comment"}),
        ("", {}),
        ("\n \n\t\n", {}),
    ],
)
def test_reads_like_java(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uxyzw", "\\u=1"])
def test_broken_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(PropertiesError, match="four hexadecimal digits"):
        parse_properties(text)


def test_file_is_utf8_or_else_latin1(tmp_path: Path) -> None:
    file = tmp_path / "x.properties"
    file.write_bytes("a=é".encode())
    assert load_properties(file) == {"a": "é"}
    file.write_bytes("a=é".encode("latin-1"))
    assert load_properties(file) == {"a": "é"}
    file.write_bytes(b"\xef\xbb\xbfa=1")
    assert load_properties(file) == {"a": "1"}


def test_problem_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "x.properties"
    file.write_text("a=\\u12")
    with pytest.raises(ConfigError, match=r"x\.properties: .*four hexadecimal digits"):
        load_properties(file)
    with pytest.raises(ConfigError, match="nope: cannot be read: No such file"):
        load_properties(tmp_path / "nope")


@given(st.text())
def test_only_the_documented_error_escapes(text: str) -> None:
    try:
        properties = parse_properties(text)
    except PropertiesError:
        return
    assert all(isinstance(name, str) for name in properties)


@given(st.dictionaries(st.text(), st.text()))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    text = format_properties(properties)
    assert text.isascii()
    assert parse_properties(text) == properties


def test_what_is_written_is_easy_to_read() -> None:
    assert format_properties({"a.b": "x=y; é#1", "c": " \\"}) == "a.b=x=y; \\u00e9#1\nc=\\ \\\\\n"
