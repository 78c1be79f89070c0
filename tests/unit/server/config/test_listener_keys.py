"""A listener's own settings come before the broker's, a mechanism's before the listener's."""

from pkafka.server.config.listener_keys import listener_texts, mechanism_texts

ORIGINALS = {
    "ssl.client.auth": "none",
    "sasl.jaas.config": "of all",
    "listener.name.inside.ssl.client.auth": "required",
    "listener.name.inside.sasl.jaas.config": "of inside",
    "listener.name.inside.scram-sha-256.sasl.jaas.config": "of SCRAM",
    "listener.name.outside.ssl.client.auth": "requested",
}


def test_of_a_listener() -> None:
    assert listener_texts(ORIGINALS, "INSIDE")["ssl.client.auth"] == "required"
    assert listener_texts(ORIGINALS, "Outside")["sasl.jaas.config"] == "of all"
    assert listener_texts(ORIGINALS, "OTHER") == {"ssl.client.auth": "none", "sasl.jaas.config": "of all"}


def test_of_a_mechanism() -> None:
    assert mechanism_texts(ORIGINALS, "INSIDE", "SCRAM-SHA-256")["sasl.jaas.config"] == "of SCRAM"
    assert mechanism_texts(ORIGINALS, "INSIDE", "PLAIN")["sasl.jaas.config"] == "of inside"
    assert mechanism_texts(ORIGINALS, "OUTSIDE", "PLAIN")["sasl.jaas.config"] == "of all"
