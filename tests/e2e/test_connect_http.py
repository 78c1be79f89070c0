"""Records of a topic at an HTTP server, as the documentation has it."""

import json
from pathlib import Path

from pkafka.clients.producer import Producer
from pkafka.testing import Broker
from tests.connect_workers import standalone
from tests.connector_docs import example
from tests.http_server import Reply, Request, http_server
from tests.raw_client import new_topic_name
from tests.talk import Talk, wait_for


class Shop:
    """A server of orders: it wants a token, is tired at first, and takes no order without an amount."""

    def __init__(self) -> None:
        self.orders: dict[str, object] = {}
        self.tries = 0

    def __call__(self, request: Request) -> Reply:
        if request.path == "/token":
            return Reply(200, b'{"access_token": "t", "expires_in": 600}')
        if request.headers.get("Authorization") != "Bearer t":
            return Reply(401)
        self.tries += 1
        if self.tries == 2:
            return Reply(503, headers={"Retry-After": "0"})
        key = request.path.rpartition("/")[2]
        if request.method == "DELETE":
            return Reply(204 if self.orders.pop(key, None) else 404)
        order = json.loads(request.body)
        if "amount" not in order:
            return Reply(422, b"no amount")
        self.orders[key] = order
        return Reply(201)


def test_the_example_sends_orders(broker: Broker, talk: Talk, tmp_path: Path) -> None:
    topic, dead = new_topic_name(), new_topic_name()
    for name in (topic, dead):
        talk.create(name)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value in (
        ("a", {"amount": 1}),
        ("b", {"amount": 2}),
        ("c", {}),
        ("a", None),
        ("d", {"amount": 3}),
    ):
        data = None if value is None else json.dumps({"schema": None, "payload": value}).encode()
        producer.send(topic, data, json.dumps({"schema": None, "payload": key}).encode())
    producer.close(60)
    shop = Shop()
    with (
        http_server(shop) as server,
        standalone(tmp_path, broker.bootstrap, starts=False) as worker,
    ):
        configs = example(
            "orders-out",
            {
                "topics": topic,
                "http.url": f"{server.url}/orders/${{key}}",
                "oauth2.token.url": f"{server.url}/token",
                "oauth2.client.secret": "secret",
                "errors.deadletterqueue.topic.name": dead,
            },
        )
        worker.start()
        checked = worker.rest.call("PUT", "/connector-plugins/HttpSink/config/validate", configs)
        assert checked.body["error_count"] == 0
        worker.create(configs)
        wait_for(lambda: shop.orders == {"b": {"amount": 2}, "d": {"amount": 3}})
        wait_for(lambda: len(talk.read(dead)) == 1)
        (letter,) = talk.read(dead)
        assert (dict(letter.headers)["__connect.errors.exception.message"] or b"").endswith(
            b"answers 422 no amount"
        )
        assert worker.rest.state("orders-out") == ("RUNNING", ("RUNNING",))
        assert {each.headers.get("X-Team") for each in server.requests if each.path != "/token"} == {"orders"}
