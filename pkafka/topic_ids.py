"""New ids of topics, and of clusters, which have the same form."""

from pkafka.model import TopicId, topic_id_text


def new_topic_id() -> TopicId:
    """A random version-4 UUID whose text form does not begin with '-', as Kafka makes them."""
    import secrets  # five milliseconds that the tools, which never make an id, need not pay

    while True:
        raw = bytearray(secrets.token_bytes(16))
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        if not topic_id_text(bytes(raw)).startswith("-"):
            return bytes(raw)
