"""Blanks, pieces, lines and letters as Java has them; a JVM is asked for more in tests/interop/test_java_text.py."""

from pkafka.java.text import equals_ignore_case, lines, parse_boolean, split, split_list, trim


def test_blanks_are_the_space_and_all_below_it() -> None:
    assert trim(" \0\t\x1fa b\n ") == "a b"
    assert trim("\xa0a\u2003\x85") == "\xa0a\u2003\x85"


def test_pieces_at_the_end_that_are_empty_do_not_count() -> None:
    assert split(",a,,b,,", ",") == ["", "a", "", "b"]
    assert split("", ",") == [""]
    assert split(",", ",") == []
    assert split_list(" a , b,,c ") == ["a", "b", "", "c"]
    assert split_list("a\xa0,b") == ["a\xa0", "b"]


def test_lines_end_where_a_reader_of_javas_ends_them() -> None:
    assert lines("a\rb\r\nc\n\nd\u2028\x85\x0b\x0ce\n") == ["a", "b", "c", "", "d\u2028\x85\x0b\x0ce"]
    assert lines("") == []


def test_letters_are_compared_one_by_one() -> None:
    assert equals_ignore_case("FALSE", "fal\u017fe")
    assert equals_ignore_case("\u0130", "i")
    assert not equals_ignore_case("\xdf", "ss")
    assert not equals_ignore_case("\xdf", "\ufb06")
    assert [parse_boolean(each) for each in ("true", "TrUe", " true", "yes", None)] == [
        True,
        True,
        False,
        False,
        False,
    ]
