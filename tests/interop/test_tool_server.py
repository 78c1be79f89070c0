"""The warm JVM that runs Kafka's tools for the tests: what one call leaves running is not heard in the next."""

from tests.interop.conftest import JavaTool


def test_a_thread_that_a_call_left_behind_is_not_heard_later(java_tool: JavaTool) -> None:
    left = java_tool("LeftBehind", "3")
    assert (left.returncode, left.stdout, left.stderr) == (0, "left\n", "left\n")
    later = java_tool("LeftBehind", "0")
    assert (later.returncode, later.stdout, later.stderr) == (0, "left\n", "left\n")
