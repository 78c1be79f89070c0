"""The counters of a worker, under the names of Kafka's metrics; the metrics page adds them up and shows them.

Plain integers, changed by one event loop. The programs that read the metrics make the rates.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import mypyc_attr

from pkafka.protocol.api import ApiKey
from pkafka.records.validation import ValidatedRecords
from pkafka.server.metrics.request_times import RequestTimes

FOLLOWERS_FETCH: Final = -int(ApiKey.FETCH)
"""Under this key, which no API has, the fetches of followers are counted; those of consumers under the API's."""


@mypyc_attr(allow_interpreted_subclasses=True)  # those of tests
class Metrics:
    """Counts for one worker."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "reassignment_bytes_in",
        "reassignment_bytes_out",
        "refused_requests",
        "replication_bytes_in",
        "replication_bytes_out",
        "request_times",
        "requests",
    )

    def __init__(self) -> None:
        self.messages_in: defaultdict[str, int] = defaultdict(int)
        self.bytes_in: defaultdict[str, int] = defaultdict(int)
        self.bytes_out: defaultdict[str | bytes, int] = defaultdict(int)
        self.produces: defaultdict[str, int] = defaultdict(int)
        self.fetches: defaultdict[str | bytes, int] = defaultdict(int)
        self.failed_produces: defaultdict[str, int] = defaultdict(int)
        self.failed_fetches: defaultdict[str | bytes, int] = defaultdict(int)
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.reassignment_bytes_in = 0
        self.reassignment_bytes_out = 0
        self.refused_requests = 0
        self.requests: defaultdict[tuple[int, int], int] = defaultdict(int)
        self.request_times: defaultdict[int, RequestTimes] = defaultdict(RequestTimes)

    def request(self, api_key: int, api_version: int, took_ns: int) -> None:
        """RequestMetrics of a request that was answered at once: from the whole frame to the answer's first byte."""
        self.requests[api_key, api_version] += 1
        self.request_times[api_key].at_once.record(took_ns)

    def later_request(self, api_key: int, api_version: int, local_ns: int, whole_ns: int) -> None:
        """RequestMetrics of a request that waited after its handler had returned."""
        self.requests[api_key, api_version] += 1
        self.request_times[api_key].waited(local_ns, whole_ns)

    def produce(self, topic: str) -> None:
        """BrokerTopicMetrics TotalProduceRequestsPerSec, which counts partitions."""
        self.produces[topic] += 1

    def appended(self, topic: str, records: ValidatedRecords) -> None:
        """BrokerTopicMetrics MessagesInPerSec and BytesInPerSec."""
        for batch in records.batches:
            self.messages_in[topic] += batch.records_count
        self.bytes_in[topic] += len(records.data)

    def fetched(self, topic: str | bytes, length: int) -> None:
        """BrokerTopicMetrics TotalFetchRequestsPerSec, which counts partitions, and BytesOutPerSec.

        By topic id where the client fetches by id.
        """
        self.fetches[topic] += 1
        if length:
            self.bytes_out[topic] += length

    def fetched_by_follower(self, topic: str | bytes, length: int, *, is_adding: bool) -> None:
        """BrokerTopicMetrics TotalFetchRequestsPerSec, ReplicationBytesOutPerSec and, for a replica that is being
        added, ReassignmentBytesOutPerSec. BytesOutPerSec counts only what consumers fetch."""
        self.fetches[topic] += 1
        if length:
            self.replication_bytes_out += length
            if is_adding:
                self.reassignment_bytes_out += length

    def replicated(self, length: int, *, is_adding: bool) -> None:
        """BrokerTopicMetrics ReplicationBytesInPerSec and, for a replica that is being added,
        ReassignmentBytesInPerSec."""
        self.replication_bytes_in += length
        if is_adding:
            self.reassignment_bytes_in += length

    def failed_produce(self, topic: str) -> None:
        """BrokerTopicMetrics FailedProduceRequestsPerSec."""
        self.failed_produces[topic] += 1

    def failed_fetch(self, topic: str | bytes) -> None:
        """BrokerTopicMetrics TotalFetchRequestsPerSec and FailedFetchRequestsPerSec."""
        self.fetches[topic] += 1
        self.failed_fetches[topic] += 1

    def refused(self) -> None:
        """Count a frame that was no request."""
        self.refused_requests += 1

    def figures(self, topic_name: Callable[[str | bytes], str | None]) -> dict[str, Any]:
        """All counters, as plain values.

        Args:
            topic_name: gives the name of a topic whose id is known; None for an id without a topic.
        """

        def named(counts: "defaultdict[str | bytes, int]") -> dict[str, int]:
            sums: defaultdict[str, int] = defaultdict(int)
            for topic, count in counts.items():
                sums[topic_name(topic) or "(deleted)"] += count
            return dict(sums)

        return {
            "messages_in": dict(self.messages_in),
            "bytes_in": dict(self.bytes_in),
            "bytes_out": named(self.bytes_out),
            "produces": dict(self.produces),
            "fetches": named(self.fetches),
            "failed_produces": dict(self.failed_produces),
            "failed_fetches": named(self.failed_fetches),
            "replication_bytes": {
                "ReplicationBytesIn": self.replication_bytes_in,
                "ReplicationBytesOut": self.replication_bytes_out,
                "ReassignmentBytesIn": self.reassignment_bytes_in,
                "ReassignmentBytesOut": self.reassignment_bytes_out,
            },
            "refused_requests": self.refused_requests,
            "requests": [[key, version, count] for (key, version), count in self.requests.items()],
            "request_times": {key: times.export() for key, times in self.request_times.items()},
        }
