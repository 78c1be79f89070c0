"""What the verifiable tools print: an event a line, as JSON with Kafka's names."""

from pkafka.cli.kit import output
from pkafka.cli.kit.java_text import java_class
from pkafka.errors import ApiError, ErrorCode
from pkafka.tools.verifiable import Event


def emit(event: Event) -> None:
    """Print an event at once."""
    error = event.get("error")
    if isinstance(error, Exception):
        event = {**{key: value for key, value in event.items() if key != "error"}, **_failure(error)}
    output.line(output.to_json(event))


def _failure(error: Exception) -> dict[str, object]:
    return {"exception": f"class {_class_of(error)}", "message": str(error)}


def _class_of(error: Exception) -> str:
    """The Java class with the same meaning; scripts look for these names."""
    from pkafka.clients.errors import ClientTimeoutError, ConnectError, DisconnectedError

    if isinstance(error, ApiError):
        return java_class(error.code)
    if isinstance(error, ClientTimeoutError | ConnectError):
        return java_class(ErrorCode.REQUEST_TIMED_OUT)
    if isinstance(error, DisconnectedError):
        return java_class(ErrorCode.NETWORK_EXCEPTION)
    return "org.apache.kafka.common.KafkaException"
