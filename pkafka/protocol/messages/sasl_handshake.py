"""SaslHandshake (key 17, v0-1): picks the SASL mechanism. Never flexible.

v1 tokens travel in SaslAuthenticate (KIP-152), not bare
"""

from pkafka.protocol.schema import Message, array, int16, string


class SaslHandshakeRequest(Message, key=17, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Message, key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)
