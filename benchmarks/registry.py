"""Every scenario, in the order in which they run."""

from benchmarks.model import Scenario
from benchmarks.scenarios import (
    clients,
    cluster,
    consume,
    consumers,
    dump_log,
    groups,
    idempotent,
    latency,
    one_record,
    perf_test,
    process,
    produce,
    producers,
    spark_segments,
    spark_topics,
    streams,
    transaction_state,
    transactions,
)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for module in (
        process,
        produce,
        idempotent,
        one_record,
        latency,
        consume,
        groups,
        transactions,
        transaction_state,
        streams,
        clients,
        producers,
        consumers,
        dump_log,
        spark_segments,
        spark_topics,
        perf_test,
        cluster,
    )
    for scenario in module.SCENARIOS
}
