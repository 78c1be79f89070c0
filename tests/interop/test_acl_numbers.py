"""Requests about ACLs whose numbers mean nothing, or too much, of a client that may do everything: as in Kafka."""

import itertools
from collections.abc import Iterator

import pytest

from tests.acl_rules import ANONYMOUS, set_rules
from tests.differences import differences
from tests.interop.conftest import System
from tests.interop.guarded import guarded_systems
from tests.interop.test_every_api import comparable
from tests.interop.test_without_security import REQUESTS
from tests.raw_client import ClosedByBroker, RawClient


@pytest.fixture(scope="module")
def guarded(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[System]]:
    """Both systems, without any rules."""
    directory = tmp_path_factory.mktemp("guarded")
    with guarded_systems(directory, kafka_classpath, {"super.users": ANONYMOUS}, opened=()) as systems:
        yield systems


@pytest.mark.parametrize("name", [name for name in REQUESTS if "acls" in name])
def test_numbers_that_mean_nothing(guarded: list[System], name: str) -> None:
    request, version = REQUESTS[name]
    outcomes = []
    for system in guarded:
        with RawClient(system.bootstrap, timeout_s=20) as client:
            try:
                outcome = comparable(client.call(request, version))
            except ClosedByBroker:
                outcome = {"closed": True}
        outcomes.append(outcome)
        set_rules(system.bootstrap, [])
    for one, other in itertools.pairwise(outcomes):
        assert list(differences(one, other)) == []
