"""Whatever a command is given, it ends in time with a status and a line, and does nothing that nobody asked for.

Here no broker answers; tests/e2e/test_any_input_at_a_broker.py goes on where one does.
"""

from pathlib import Path

import pytest

from tests.any_input import LONG_S, check_any_input, check_each_flag
from tests.command_lines import Leaf, leaves
from tests.sockets import free_port

# Ctrl-C, which ends what goes on for ever, leaves sockets open that a process would take along.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(LONG_S),
]


@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: leaf.name)
def test_no_input_ends_a_command_in_a_traceback(leaf: Leaf, tmp_path: Path) -> None:
    check_any_input(leaf, f"127.0.0.1:{free_port()}", tmp_path, share=1 / 4)


@pytest.mark.nightly
@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: leaf.name)
def test_no_value_of_a_flag_ends_a_command_in_a_traceback(leaf: Leaf, tmp_path: Path) -> None:
    check_each_flag(leaf, f"127.0.0.1:{free_port()}", tmp_path)
