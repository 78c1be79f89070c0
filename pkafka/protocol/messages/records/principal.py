"""The authenticated principal as a forwarding broker sends it inside an Envelope."""

from pkafka.protocol.schema import Message, boolean, string


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
