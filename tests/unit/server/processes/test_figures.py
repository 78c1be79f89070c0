"""A worker tells all that the metrics page reads, and no more."""

from pathlib import Path

import msgpack

from pkafka.server.metrics.jmx_beans import beans
from pkafka.server.metrics.meters import Meters
from pkafka.server.metrics.page import families
from pkafka.server.processes.figures import figures
from tests.unit.server.metrics import metrics_snapshots
from tests.unit.server.workers import Family, follow, with_family


def test_figures_are_what_the_page_and_the_beans_are_made_of(tmp_path: Path) -> None:
    async def body(family: Family) -> None:
        await family.lead("t", [0, 1])
        [worker] = family.workers
        worker.metrics.produce("t")
        await follow(family, "t", [1], leader=1, epoch=1)
        told = figures(worker)
        assert told.keys() == metrics_snapshots.worker().keys()
        assert (told["leaders"], told["partitions"], told["produces"]) == (1, 2, {"t": 1})
        [led], [followed] = told["led"], told["followed"]
        assert (led.topic, led.partition, led.replicas, led.in_sync) == ("t", 0, 1, 1)
        assert (followed.topic, followed.partition) == ("t", 1)
        assert {(row.topic, row.partition) for row in told["logs"]} == {("t", 0), ("t", 1)}
        come = [msgpack.unpackb(msgpack.packb(told), strict_map_key=False)]
        assert [*families(come, metrics_snapshots.FACTS)]
        assert beans(come, metrics_snapshots.FACTS, Meters(0.0), 1.0)

    with_family(tmp_path, body, workers=1)
