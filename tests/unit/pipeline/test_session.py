"""What is said where Spark cannot run, and what its errors come to."""

import importlib.util
from pathlib import Path

import pytest

from pkafka.pipeline.session import SparkUnavailableError, explain, spark_session


def test_without_java_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnavailableError) as caught, spark_session("test"):
        pass
    assert str(caught.value).startswith(
        "Spark needs Java 17 or newer: no java in PATH: apt install openjdk-17"
    )
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_without_the_extra_one_line_says_so(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else object())
    with pytest.raises(SparkUnavailableError) as caught, spark_session("test"):
        pass
    assert str(caught.value) == f"{missing} is not installed: pip install 'pkafka[spark]' brings it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found.\nVerify; line 1 pos 14;\n'Project",
            "[TABLE_OR_VIEW_NOT_FOUND] The table `x` cannot be found.",
        ),
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "x.py", line 1\npkafka.pipeline.segments.plan.SourceError: there is no segment in x\n\n'
            "\tat org.apache.spark.api.Foo",
            "there is no segment in x",
        ),
        ("Traceback\nKeyError: 'a'\norg.apache.spark.SparkException: Job aborted", "KeyError: 'a'"),
        (
            "An error occurred while calling o49.load.\n: java.lang.Foo: no bar\n\tat x",
            "java.lang.Foo: no bar",
        ),
        ("", "RuntimeError"),
    ],
)
def test_an_error_of_spark_in_one_line(text: str, expected: str) -> None:
    assert explain(RuntimeError(text)) == expected
