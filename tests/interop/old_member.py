"""OldMember.java with pkafka's connector: a member of a group of Kafka 0.8 that can be killed.

Arguments: a file with the consumer's properties, a topic, how many streams. Prints "partition offset value" of what it
reads, and leaves when standard input ends.
"""

import os
import sys
import threading

from pkafka.clients.legacy import KafkaStream, ZookeeperConsumerConnector
from pkafka.java.properties import load_properties


def main(properties: str, topic: str, threads: str) -> None:
    connector = ZookeeperConsumerConnector(load_properties(properties))

    def drain(stream: KafkaStream) -> None:
        for each in stream:
            os.write(1, b"%d %d %s\n" % (each.partition, each.offset, each.message))

    for stream in connector.create_message_streams({topic: int(threads)})[topic]:
        threading.Thread(target=drain, args=(stream,), daemon=True).start()
    while os.read(0, 100):
        pass
    connector.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
