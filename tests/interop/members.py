"""Members of consumer groups for tests of what looks at groups: another client, in threads of the test's process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer

_POLL_S: Final = 0.1
_JOIN_S: Final = 60.0


@contextmanager
def member(
    bootstrap: str, group: str, *topics: str, client_id: str = "m", **configs: object
) -> Iterator[str]:
    """A member of ``group`` that has its partitions; ``group_instance_id="x"`` sets ``group.instance.id``.

    Yields:
        Its member id.
    """
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": client_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **{name.replace("_", "."): value for name, value in configs.items()},
    }
    consumer = Consumer(settings)
    member_ids: list[str] = []
    assigned, joined, leaving = threading.Event(), threading.Event(), threading.Event()

    def read() -> None:
        consumer.subscribe(list(topics), on_assign=lambda *_: assigned.set())
        while not leaving.is_set():
            consumer.poll(_POLL_S)
            if assigned.is_set() and not member_ids:
                member_ids.append(str(consumer.memberid()))
                joined.set()
        consumer.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        assert joined.wait(_JOIN_S), f"{client_id} did not become a member of {group}"
        yield member_ids[0]
    finally:
        leaving.set()
        thread.join(_JOIN_S)
