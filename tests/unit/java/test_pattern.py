"""Regular expressions of Java's; a JVM is asked for many more in tests/interop/test_java_text.py."""

import pytest

from pkafka.java.pattern import PatternError, compile_pattern, split_by


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("c{1,2}q", ["cq", "ccq"], ["c1q", "cccq"]),
        ("a.b", ["a.b", "a-b"], ["a\nb"]),
        ("[a-z&&[^x]]+", ["ab"], ["axb", "&"]),
        ("[^a-z&&[b-y]]", ["a", "z", "A"], ["b"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a[b-c]\\d-]+", ["abc-7"], ["e"]),
        (r"\d\w\s", ["1a "], ["\u0663a ", "1\xe9 "]),
        (r"a(?i)b|c", ["aB", "C"], ["Ab"]),
        (r"(?i:a)b(?-i)", ["Ab"], ["AB"]),
        (r"((?i)a)b", ["Ab"], ["AB"]),
        (r"(?i)[^a]", ["b"], ["a", "A"]),
        (r"(?<year>\d{4})-\k<year>", ["2024-2024"], ["2024-2025"]),
        (r"\Qa.b|\E.", ["a.b|c"], ["aXb|c"]),
        (r"\p{Alpha}\p{Lu}\P{L}\pN", ["aB-1"], ["1B-1"]),
        (r"(?x) a b # not this", ["ab"], ["a b"]),
        (r"\x{41}\u0042\0103\t", ["ABC\t"], []),
        (r"(a)|\1b", ["a"], ["b"]),
        (r"a++b*+", ["aab"], []),
        (r"}]", ["}]"], []),
        (r"\h\R", ["\t\r\n", " \u2028"], []),
        (r"(?s).(?-s).", ["\na"], ["a\n"]),
    ],
)
def test_what_is_matched(text: str, matching: list[str], others: list[str]) -> None:
    pattern = compile_pattern(text)
    assert [each for each in matching if not pattern.fullmatch(each)] == []
    assert [each for each in others if pattern.fullmatch(each)] == []


@pytest.mark.parametrize(
    ("pattern", "text", "pieces"),
    [
        ("\\n", "a\nb\n\nc\n\n", ["a", "b", "", "c"]),
        ("|", "a|b", ["a", "|", "b"]),
        ("\\|", "|a||b", ["", "a", "", "b"]),
        ("", "abc", ["a", "b", "c"]),
        ("x", "", [""]),
        ("(x)", "axb", ["a", "b"]),
        (",", ",,", []),
        ("|,*", ",", [","]),
    ],
)
def test_what_stands_between(pattern: str, text: str, pieces: list[str]) -> None:
    assert split_by(compile_pattern(pattern), text) == pieces


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a{",
            "{",
            "a{,2}",
            "a{2,1}",
            "a{99999999999}",
            "*",
            "a**",
            "(?i)*",
            "(",
            ")",
            "[",
            "[a",
            "[b-a]",
            "[a-\\d]",
        ),
        *(
            r"\y",
            "\\",
            r"\x4",
            r"\u12",
            r"\0",
            r"\k<a>",
            r"\p{Nope}",
            r"\p{",
            "(?<a>x)(?<a>y)",
            "(?P<a>x)",
            "(?U)a",
        ),
        *("(?<=a*)b", r"\N{none}", r"\x{110000}", "(?y)", "[&&]"),
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(text)
