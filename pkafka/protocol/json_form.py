"""A message as Kafka writes it in JSON (its JsonConverter classes): what the request log shows.

Names are those of the wire in camelCase, bytes are base64, ids their 22 characters; record sets are only measured, as
in the request log of Kafka. A field that a version does not carry is left out, a tagged one also at its default.
"""

import base64
from functools import lru_cache
from typing import Any

from pkafka.model import topic_id_text
from pkafka.protocol.schema import Field, Message, is_made_fresh


def json_form(message: Message, version: int) -> dict[str, Any]:
    """The fields of a message of one version, ready for ``json.dumps``.

    Args:
        message: as it was decoded, or as it can be encoded, in ``version``.
        version: of the API.
    """
    form: dict[str, Any] = {}
    for field, name, is_tagged in _shown(type(message), version):
        value = getattr(message, field.name)
        if is_tagged and _is_default(field, value):
            continue
        if field.kind == "records" and value is not None:
            form[f"{name}SizeInBytes"] = len(value)
        else:
            form[name] = _value(field, value, version)
    return form


@lru_cache(maxsize=1024)
def _shown(cls: type[Message], version: int) -> tuple[tuple[Field, str, bool], ...]:
    return tuple(
        (field, _camel(field.name), field.is_tagged(version))
        for field in cls.__fields__
        if field.is_in(version)
    )


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _is_default(field: Field, value: object) -> bool:
    if not is_made_fresh(field):
        return value == field.default
    return value == ([] if field.struct is None or field.kind == "array" else field.struct())


def _value(field: Field, value: Any, version: int) -> Any:  # noqa: ANN401 - what JSON has
    if value is None:
        return None
    if field.kind == "array":
        if field.struct is not None:
            return [json_form(one, version) for one in value]
        assert field.element is not None
        element = field.element
        return [_value(element, one, version) for one in value]
    if field.kind == "struct":
        return json_form(value, version)
    if field.kind == "uuid":
        return topic_id_text(value)
    if field.kind == "bytes":
        return base64.b64encode(value).decode("ascii")
    return value
