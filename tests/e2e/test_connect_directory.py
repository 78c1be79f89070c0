"""Files of a directory into a topic, by a worker that is killed in between."""

import json
from itertools import pairwise
from pathlib import Path

from tests.connect_fixtures import new_topic, waiting_worker
from tests.connect_workers import ConnectWorker, connector_file
from tests.connector_docs import example
from tests.talk import Talk, wait_for

__all__ = ["new_topic", "waiting_worker"]


def values(talk: Talk, topic: str) -> list[object]:
    return [json.loads(each.value or b"")["payload"] for each in talk.read(topic)]


def test_the_example_brings_rows_and_puts_files_away(
    worker: ConnectWorker, talk: Talk, topic: str, tmp_path: Path
) -> None:
    directory, done = tmp_path / "orders", tmp_path / "orders" / "done"
    directory.mkdir()
    replaced = {"directory": str(directory), "topic": topic, "done.directory": str(done)}
    configs = example("orders-in", replaced)
    worker.start()
    checked = worker.rest.call("PUT", "/connector-plugins/DirectorySource/config/validate", configs)
    assert checked.body["error_count"] == 0
    worker.create(configs)
    (directory / "1.csv").write_text("id,name\n1,Ann\n2,\n")
    (directory / "2.csv").write_text("id\n3\n")
    (directory / "other.txt").write_text("x\n")
    wait_for(lambda: sorted(each.name for each in done.glob("*")) == ["1.csv", "2.csv"])
    assert values(talk, topic) == [{"id": "1", "name": "Ann"}, {"id": "2", "name": ""}, {"id": "3"}]
    assert [each.name for each in directory.glob("*.*")] == ["other.txt"]


def test_a_kill_loses_no_line_and_what_is_stored_does_not_come_again(
    worker: ConnectWorker, talk: Talk, topic: str, tmp_path: Path
) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    lines = [f"{number:06}" for number in range(30_000)]
    for number in range(3):
        part = lines[number * 10_000 : (number + 1) * 10_000]
        (directory / f"f{number}").write_text("".join(f"{line}\n" for line in part))
    configs = {
        "name": "lines",
        "connector.class": "DirectorySource",
        "directory": str(directory),
        "topic": topic,
        "file.after": "delete",
        "file.min.age.ms": "0",
        "batch.size": "50",
    }
    file = connector_file(tmp_path / "lines.properties", configs)
    worker.start(file)
    wait_for(lambda: talk.ends(topic)[1] > 500)
    worker.kill()
    worker.start(file)
    wait_for(lambda: not list(directory.iterdir()))
    found = [str(each) for each in values(talk, topic)]
    assert sorted(set(found)) == lines
    again = len(found) - len(lines)
    # What the killed one had on its way may have come after its end: only the lines say how far it was.
    reached = next(
        (place for place, (one, other) in enumerate(pairwise(found), 1) if other <= one), len(lines)
    )
    assert again <= reached
    assert found[:reached] == lines[:reached]
    assert found[reached:] == lines[reached - again :]
    # A restart in good order sends nothing again.
    end = talk.ends(topic)[1]
    worker.stop()
    (directory / "f3").write_text("last\n")
    worker.start(file)
    wait_for(lambda: not list(directory.iterdir()))
    assert values(talk, topic)[end:] == ["last"]
