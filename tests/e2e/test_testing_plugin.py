"""The fixture that other projects use: ``pkafka_broker``."""

import subprocess
import sys
from pathlib import Path

import pytest

from pkafka.testing import Broker, BrokerStartError, running_broker

pytest_plugins = ["pytester"]


def test_it_is_cheap_to_import() -> None:
    script = "import sys, pytest; before = set(sys.modules); import pkafka.testing; print(set(sys.modules) - before)"
    loaded = eval(subprocess.check_output([sys.executable, "-c", script], text=True, timeout=30))
    assert loaded <= {
        "pkafka",
        "pkafka.testing",
        "pkafka.tools",
        "pkafka.tools.servers",
        "pkafka.tools.servers.local_broker",
    }


def test_any_test_gets_a_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, socket

        @pytest.fixture(scope="session")
        def pkafka_broker_overrides():
            return {"num.partitions": 3, "pkafka.workers": 1}

        def test_it_listens(pkafka_broker):
            host, port = pkafka_broker.bootstrap.split(":")
            socket.create_connection((host, int(port)), timeout=5).close()
            assert pkafka_broker.log_dir.is_dir()
            assert pkafka_broker.pid > 0
        """
    )
    pytester.runpytest_subprocess("-p", "no:randomly").assert_outcomes(passed=1)


def test_it_stops_dies_and_starts_on_the_same_port(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        address, first = broker.bootstrap, broker.pid
        broker.restart()
        assert broker.bootstrap == address
        assert broker.pid != first
        broker.kill()
        broker.start()
        assert broker.stop() == 0
        broker.kill()  # of one that is stopped: nothing happens


def test_what_it_cannot_start_with_is_said(tmp_path: Path) -> None:
    broker = Broker(tmp_path, {"num.partitions": "many"})
    with pytest.raises(BrokerStartError, match="num\\.partitions"):
        broker.start()
