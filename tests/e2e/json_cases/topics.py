"""What commands print of topics and configurations."""

import json

from pkafka.protocol.api import ApiKey
from pkafka.protocol.messages import describe_client_quotas as quotas_wire
from pkafka.protocol.messages import describe_user_scram_credentials as scram_wire
from tests.e2e.json_cases.case import At, Cases
from tests.fakes.broker import FakeBroker
from tests.json_schemas import check
from tests.zookeeper import running_zookeeper

CASES = Cases()


@CASES.of("pk-topics.list")
def topics_are_listed(at: At) -> None:
    topic = at.topic()
    found = at.every_form(["--list"])
    assert topic in {row["name"] for row in found["topics"]}
    assert at.document("--list", "--topic", at.new()) == {"topics": []}


@CASES.of("pk-topics.describe")
def topics_are_described(at: At) -> None:
    topic = at.topic(partitions=2, retention_ms=1_000)
    (row,) = at.every_form(["--describe", "--topic", topic])["topics"]
    assert (row["configs"], len(row["partitions"])) == ({"retention.ms": "1000"}, 2)
    at.every_form(["--describe", "--topic", topic, "--at-min-isr-partitions"])
    at.document("--describe", "--topic", topic, "--topics-with-overrides")
    assert at.document("--describe", "--topic", at.new(), "--if-exists") == {"topics": []}
    assert at.error("--describe", "--topic", at.new())["code"] is None


@CASES.of("pk-topics.create")
def topics_are_created(at: At) -> None:
    topic = at.topic()
    words = ["--create", "--if-not-exists", "--topic"]
    (row,) = at.every_form(lambda: [*words, at.new(), "--partitions", "2"])["topics"]
    assert (row["created"], row["partition_count"]) == (True, 2)
    found = at.every_form(lambda: [*words, at.new(), "--dry-run"])
    assert (found["topics"][0]["created"], found["dry_run"]) == (False, True)
    (row,) = at.every_form([*words, topic])["topics"]
    assert (row["created"], row["id"]) == (False, None)
    assert at.error("--create", "--topic", topic)["name"] == "TOPIC_ALREADY_EXISTS"


@CASES.of("pk-topics.alter")
def topics_are_grown(at: At) -> None:
    grown = ("--partitions", "3")
    assert at.every_form(lambda: ["--alter", "--topic", at.topic(), *grown])["dry_run"] is False
    assert at.every_form(lambda: ["--alter", "--topic", at.topic(), *grown, "--dry-run"])["dry_run"] is True
    assert at.document("--alter", "--topic", at.new(), "--partitions", "3", "--if-exists")["topics"] == []
    assert at.error("--alter", "--topic", at.topic(), "--partitions", "1")["name"] == "INVALID_PARTITIONS"


@CASES.of("pk-topics.delete")
def topics_are_deleted(at: At) -> None:
    assert at.every_form(lambda: ["--delete", "--topic", at.topic()])["topics"][0]["deleted"] is True
    found = at.every_form(lambda: ["--delete", "--topic", at.topic(), "--dry-run"])
    assert (found["topics"][0]["deleted"], found["dry_run"]) == (False, True)
    assert at.document("--delete", "--topic", at.new(), "--if-exists")["topics"] == []
    at.error("--delete", "--topic", at.new())


@CASES.of("pk-configs.describe")
def configurations_are_described(at: At) -> None:
    topic = at.topic(retention_ms=1_000)
    assert at.every_form(["--describe", "--topic", topic])["configs"][0]["value"] == "1000"
    for entity in (["--topic", topic], ["--broker", "0"], ["--broker-logger", "0"]):
        at.every_form(["--describe", *entity, "--all"])
    assert at.document("--describe", "--topic", at.topic()) == {"configs": []}
    at.document("--describe", "--entity-type", "brokers")
    at.document("--describe", "--broker-defaults")
    assert at.error("--describe", "--topic", at.new())["code"] == 3


@CASES.of("pk-configs.describe-clients")
def quotas_and_credentials_are_described(at: At) -> None:
    """By a broker of a few lines: no pkafka serves them yet. Of Apache Kafka, see tests/interop/session/."""
    user = quotas_wire.EntityData(entity_type="user", entity_name="u")
    client = quotas_wire.EntityData(entity_type="client-id", entity_name=None)
    values = [quotas_wire.ValueData(key="producer_byte_rate", value=1024.5)]
    entries = [quotas_wire.EntryData(entity=[user, client], values=values)]
    infos = [scram_wire.CredentialInfo(mechanism=2, iterations=8192)]
    results = [
        scram_wire.DescribeUserScramCredentialsResult(user="u", credential_infos=infos),
        scram_wire.DescribeUserScramCredentialsResult(user="v", error_code=92, error_message="twice"),
        scram_wire.DescribeUserScramCredentialsResult(user="w", error_code=91),
    ]
    with FakeBroker() as broker:
        broker.handlers[ApiKey.DESCRIBE_CLIENT_QUOTAS] = lambda *_: quotas_wire.DescribeClientQuotasResponse(
            entries=entries
        )
        broker.handlers[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS] = lambda *_: (
            scram_wire.DescribeUserScramCredentialsResponse(results=results)
        )
        words = ["--bootstrap-server", broker.bootstrap, "--describe", "--entity-type", "users"]
        quota, credential, failed = at.every_form(words)["configs"]
        text = at.run(*words)
    assert (quota["user"], quota["defaults"], quota["value"]) == ("u", ["client-id"], 1024.5)
    assert (credential["name"], credential["value"], credential["iterations"]) == (
        "SCRAM-SHA-512",
        None,
        8192,
    )
    assert failed["error"]["message"] == "twice"
    assert "Quota configs for user-principal 'u', the default client-id are producer_byte_rate=1024.5" in text
    assert "Error retrieving SCRAM credential configs for user-principal 'v': ExecutionException: " in text
    assert "'w'" not in text
    # And at a real broker.
    client_id = at.new()
    named = ["--entity-type", "clients", "--entity-name", client_id]
    at.run("--alter", *named, "--add-config", "producer_byte_rate=5000000")
    (quota,) = at.document("--describe", *named)["configs"]
    assert (quota["client_id"], quota["name"], quota["value"]) == (
        client_id,
        "producer_byte_rate",
        5_000_000.0,
    )
    at.run("--alter", *named, "--delete-config", "producer_byte_rate")
    assert at.document("--describe", *named)["configs"] == []


@CASES.of("pk-configs.describe-zookeeper")
def what_zookeeper_stores_is_described(at: At) -> None:
    secret = "SCRAM-SHA-256=[iterations=8192,password=hush]"
    with running_zookeeper() as server:
        by_zookeeper = ["--zookeeper", server.connect, "--alter", "--user", "u", "--add-config", secret]
        for dry_run in (True, False):
            changed = json.loads(
                at.run(*by_zookeeper, *(["--dry-run"] if dry_run else []), "--output", "json")
            )
            check(changed, "pk-configs.alter")
            assert changed["dry_run"] is dry_run
            assert changed["changes"] == [{"name": "SCRAM-SHA-256", "op": "SET", "value": None}]
        found = at.every_form(["--zookeeper", server.connect, "--describe", "--user", "u"])
    row = {"entity_type": "users", "entity_name": "u", "name": "SCRAM-SHA-256", "value": "iterations=8192"}
    assert found == {"configs": [row]}


@CASES.of("pk-configs.alter")
def configurations_are_changed(at: At) -> None:
    topic = at.topic()
    words = ["--alter", "--topic", topic, "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]"]
    assert len(at.every_form(words)["changes"]) == 2
    assert at.every_form([*words, "--dry-run"])["dry_run"] is True
    at.document("--alter", "--topic", topic, "--delete-config", "retention.ms")
    at.document("--alter", "--broker-defaults", "--add-config", "log.cleaner.threads=1", "--dry-run")
    secret = ["--alter", "--broker", "0", "--add-config", "my.reporter.password=hush", "--dry-run"]
    assert at.document(*secret)["changes"] == [{"name": "my.reporter.password", "op": "SET", "value": None}]
    credential = ["--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=[password=hush]", "--dry-run"]
    with FakeBroker() as broker:
        broker.handlers[ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS] = lambda *_: (
            scram_wire.DescribeUserScramCredentialsResponse(
                results=[scram_wire.DescribeUserScramCredentialsResult(user="u", error_code=91)]
            )
        )
        found = at.document("--bootstrap-server", broker.bootstrap, *credential)
    assert found["changes"] == [{"name": "SCRAM-SHA-256", "op": "SET", "value": None}]
    assert found["entities"] == [{"type": "users", "name": "u"}]
    assert at.error("--alter", "--topic", topic, "--add-config", "retention.ms=x")["name"] == "INVALID_CONFIG"
