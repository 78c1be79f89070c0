"""Every scenario, in the order in which they run."""

from benchmarks.model import Scenario
from benchmarks.scenarios import (
    acls,
    asyncio_clients,
    clients,
    cluster,
    connect,
    consume,
    consumers,
    dump_log,
    groups,
    idempotent,
    latency,
    logins,
    many,
    mirror,
    mirror_makers,
    one_record,
    perf_test,
    process,
    produce,
    producers,
    spark_segments,
    spark_topics,
    streams,
    tls,
    transaction_state,
    transactions,
)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for module in (
        process,
        many,
        produce,
        idempotent,
        one_record,
        latency,
        consume,
        tls,
        groups,
        transactions,
        transaction_state,
        streams,
        clients,
        logins,
        acls,
        producers,
        consumers,
        asyncio_clients,
        dump_log,
        spark_segments,
        spark_topics,
        perf_test,
        connect,
        mirror,
        mirror_makers,
        cluster,
    )
    for scenario in module.SCENARIOS
}
