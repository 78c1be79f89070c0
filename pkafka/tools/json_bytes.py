"""Bytes as JSON: a string where they are UTF-8, else ``{"base64": ...}``, so that both are told apart and read back."""


def value_of(data: bytes | None) -> object:
    """The JSON value of bytes; null for None."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(data).decode()}


def bytes_of(value: object) -> bytes | None:
    """The bytes behind a JSON value.

    Raises:
        ValueError: it is none that :func:`value_of` gives.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        import base64

        return base64.b64decode(value["base64"], validate=True)
    raise ValueError('text, {"base64": ...} or null expected')
