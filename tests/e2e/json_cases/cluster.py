"""What commands print of offsets, brokers, disks and reassignments."""

from pkafka.cli.kit.exit_status import ExitStatus
from pkafka.testing import running_broker
from tests.e2e.json_cases.case import At, Cases, Words
from tests.sockets import free_port

CASES = Cases()


@CASES.of("pk-get-offsets")
def offsets_are_found(at: At) -> None:
    topic = at.topic(b"a", b"b")
    assert at.every_form(["--topic", topic])["offsets"] == [
        {"topic": topic, "partition": 0, "offset": 2, "error": None}
    ]
    assert at.document("--topic", topic, "--time", "99999999999999") == {"offsets": []}
    at.error("--topic", at.new())


@CASES.of("pk-delete-records")
def records_are_deleted(at: At) -> None:
    topic = at.topic(b"a", b"b", b"c")
    partitions = [{"topic": topic, "partition": 0, "offset": 1}]
    words = ["--offset-json-file", at.file({"partitions": partitions, "version": 1})]
    found = at.document(*words, "--dry-run")
    assert [found["partitions"][0][key] for key in ("log_start_offset", "low_watermark")] == [0, 1]
    at.every_form([*words, "--dry-run"])
    at.every_form(words)
    missing = at.new()
    partitions.append({"topic": missing, "partition": 0, "offset": 1})
    words = ["--offset-json-file", at.file({"partitions": partitions, "version": 1})]
    for more in ([], ["--dry-run"]):
        found = at.every_form([*words, *more], ExitStatus.FAILURE)
        codes = {row["topic"]: row["error"] and row["error"]["code"] for row in found["partitions"]}
        assert codes == {topic: None, missing: 3}
    at.error("--offset-json-file", at.file({}))


@CASES.of("pk-doctor")
def the_way_to_a_broker_is_open(at: At) -> None:
    topic = at.topic()
    found = at.every_form(["--security", "--topic", topic])["findings"]
    assert {row["verdict"] for row in found} == {"ok", "not used"}


@CASES.of("pk-log-dirs")
def directories_are_described(at: At) -> None:
    topic = at.topic(b"a")
    (broker,) = at.every_form(["--describe", "--topic-list", topic])["brokers"]
    (replica,) = broker["log_dirs"][0]["replicas"]
    assert (replica["topic"], replica["size_bytes"] > 60) == (topic, True)
    assert broker["log_dirs"][0]["usable_bytes"] > 0
    at.every_form(["--describe", "--topic-list", at.new()])
    at.error("--describe", "--broker-list", "99")


@CASES.of("pk-leader-election")
def leaders_are_elected(at: At) -> None:
    topic, missing = at.topic(), at.new()
    rows = [{"topic": each, "partition": 0} for each in (topic, missing)]
    words = ["--election-type", "preferred", "--path-to-json-file", at.file({"partitions": rows})]
    for more in ([], ["--dry-run"]):
        found = at.every_form([*words, *more], ExitStatus.FAILURE)
        assert {row["topic"]: row["result"] for row in found["partitions"]} == {
            topic: "not_needed",
            missing: "failed",
        }
    assert at.document("--election-type", "UNCLEAN", "--all-topic-partitions")["partitions"] == []
    at.error("--election-type", "preferred", "--path-to-json-file", at.file({}))


@CASES.of("pk-preferred-replica-election")
def preferred_leaders_are_elected(at: At) -> None:
    topic, missing = at.topic(), at.new()
    rows = [{"topic": each, "partition": 0} for each in (topic, missing)]
    words = ["--path-to-json-file", at.file({"partitions": rows})]
    for more in ([], ["--dry-run"]):
        found = at.every_form([*words, *more], ExitStatus.FAILURE)
        assert {row["topic"]: row["result"] for row in found["partitions"]} == {
            topic: "not_needed",
            missing: "failed",
        }
    assert at.document()["partitions"] == []
    at.error("--path-to-json-file", at.file({}))


@CASES.of("pk-replica-verification")
def replicas_are_compared(at: At) -> None:
    topic = at.topic(b"a", b"b")
    words = ["--once", "--topics-include", topic]
    started, report = at.document(*words)["events"]
    assert (started["event"], started["partitions"]) == ("started", 1)
    assert (report["event"], report["lag"], report["offset"]) == ("report", 0, 2)
    assert [row["event"] for row in at.rows(*words)] == ["started", "report"]
    at.error("--once", "--topics-include", at.new())


@CASES.of(
    "pk-metadata.brokers",
    "pk-metadata.controller",
    "pk-metadata.log-dirs",
    "pk-metadata.topics",
    "pk-metadata.partitions",
    "pk-metadata.epochs",
    "pk-metadata.isr",
)
def metadata_is_shown(at: At) -> None:
    topic, verb = at.topic(b"a"), at.name.partition(".")[2]
    if verb == "isr":
        assert at.document(verb) == {"partitions": []}
        assert at.rows(verb, "--check") == []
        return
    found = at.every_form([verb, "--check"])
    if verb in ("topics", "partitions", "epochs"):
        (row,) = at.document(verb, "--topic", topic)[verb if verb != "epochs" else "partitions"]
        assert row["topic"] == topic
    else:
        assert len(next(each for each in found.values() if isinstance(each, list))) == 1
    assert at.rows(verb, "--problems") == []


def moving(at: At, *topics: str, **more: object) -> Words:
    """A file that has partitions where they are: on one broker they can be nowhere else."""
    rows = [{"topic": topic, "partition": 0, "replicas": [0], **more} for topic in topics]
    return ["--reassignment-json-file", at.file({"version": 1, "partitions": rows})]


@CASES.of("pk-reassign-partitions.generate")
def a_reassignment_is_proposed(at: At) -> None:
    topic = at.topic(partitions=2)
    topics = at.file({"topics": [{"topic": topic}], "version": 1})
    words = ["--generate", "--topics-to-move-json-file", topics, "--broker-list", "0"]
    assert at.every_form(words)["partitions"][1] == {
        "topic": topic,
        "partition": 1,
        "replicas": [0],
        "proposed_replicas": [0],
    }
    at.error(*words[:-1], "7")


@CASES.of("pk-reassign-partitions.execute")
def a_reassignment_begins(at: At) -> None:
    topic = at.topic()
    for more in ([], ["--dry-run"], ["--throttle", "1000"]):
        found = at.every_form(["--execute", *moving(at, topic), *more])
        assert (found["dry_run"], found["log_dir_moves"]) == ("--dry-run" in more, [])
    found = at.document("--execute", "--dry-run", *moving(at, topic, log_dirs=["/d"]))
    assert found["log_dir_moves"] == [
        {"topic": topic, "partition": 0, "broker": 0, "log_dir": "/d", "started": False, "bytes": 0}
    ]
    assert (found["partitions"][0]["bytes"], found["total_bytes"], found["rollback_file"]) == (0, 0, None)
    at.error("--execute", *moving(at, at.new()))


@CASES.of("pk-reassign-partitions.verify")
def a_reassignment_is_verified(at: At) -> None:
    topic, missing = at.topic(), at.new()
    assert at.every_form(["--verify", *moving(at, topic)])["throttles_cleared"] is True
    found = at.every_form(["--verify", *moving(at, missing), "--preserve-throttles"], ExitStatus.FAILURE)
    assert (found["partitions"][0]["state"], found["throttles_cleared"]) == ("other_replicas", False)
    there, nowhere = [str(at.broker.log_dir)], ["/nowhere"]
    for log_dirs, state in ((there, "completed"), (nowhere, "not_moving")):
        status = ExitStatus.OK if state == "completed" else ExitStatus.FAILURE
        found = at.document("--verify", *moving(at, topic, log_dirs=log_dirs), status=status)
        assert [row["state"] for row in found["log_dir_moves"]] == [state]


@CASES.of("pk-reassign-partitions.cancel")
def a_reassignment_is_given_up(at: At) -> None:
    words = ["--cancel", *moving(at, at.topic())]
    nothing = {"partitions": [], "log_dir_moves": [], "throttles_cleared": True, "dry_run": False}
    assert at.document(*words) == nothing
    assert at.document(*words, "--dry-run")["dry_run"] is True
    at.error("--cancel", "--reassignment-json-file", at.file([]))


@CASES.of("pk-reassign-partitions.list")
def reassignments_are_listed(at: At) -> None:
    assert at.document("--list") == {"partitions": []}
    at.error("--list", "--generate", status=ExitStatus.USAGE)


@CASES.of("pk-broker-api-versions")
def versions_are_told(at: At) -> None:
    at.every_form([])


@CASES.of("pk-cluster.cluster-id", "pk-cluster.list-endpoints")
def a_cluster_is_described(at: At) -> None:
    verb = at.name.partition(".")[2]
    at.every_form([verb])
    at.error(verb, "--wait", "--brokers", "2", "--timeout", "1", status=ExitStatus.UNREACHABLE)


@CASES.of("pk-cluster.unregister")
def unregistering_is_refused(at: At) -> None:
    at.error("unregister", "--id", "0")


@CASES.of("pk-features.describe")
def features_are_described(at: At) -> None:
    assert at.document("OUTPUT", "describe")["features"] == []


@CASES.of("pk-features.upgrade", "pk-features.downgrade", "pk-features.disable")
def features_are_changed(at: At) -> None:
    verb = at.name.partition(".")[2]
    feature = "foo" if verb == "disable" else "foo=1"
    for more in ([], ["--dry-run"]):
        found = at.every_form(["OUTPUT", verb, "--feature", feature, *more], ExitStatus.FAILURE)
        assert (found["dry_run"], found["features"][0]["error"]["code"] is not None) == (bool(more), True)


@CASES.of("pk-metrics")
def beans_are_shown(at: At) -> None:
    port = free_port()
    with running_broker(at.tmp_path / "broker", {"pkafka.workers": 1, "pkafka.metrics.port": port}):
        words = ("--url", f"http://localhost:{port}", "--one-time")
        assert at.document(*words)["beans"]
        assert at.rows(*words)
        at.error(*words, "--object-name", "no such name:", status=ExitStatus.USAGE)
    at.error(*words, status=ExitStatus.UNREACHABLE)
