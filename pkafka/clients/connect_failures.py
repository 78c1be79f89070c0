"""Why a connection does not come up, or goes: for each stage one sentence, and what to do about it."""

import errno
import os
from typing import TYPE_CHECKING, Final

from pkafka.clients.errors import AuthenticationError, ConnectError, DisconnectedError, Stage
from pkafka.errors import ErrorCode

if TYPE_CHECKING:
    import ssl

    from pkafka.clients.pending import Address
    from pkafka.protocol.messages.sasl_handshake import SaslHandshakeResponse
    from pkafka.security.sasl import SaslError

_HOST_NAME_CODES: Final = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_UNKNOWN_ISSUER_CODES: Final = frozenset({18, 19, 20, 21, 2})
_DATE_CODES: Final = frozenset({9, 10})
_WEAK_CODES: Final = frozenset({66, 67, 68})
_WANTS_CERTIFICATE: Final = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "ALERT_HANDSHAKE_FAILURE")
_NO_CERTIFICATE_TRUSTED: Final = (
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "CERTIFICATE_EXPIRED",
    "UNSUPPORTED_CERTIFICATE",
)


def unresolved(host: str, address: str, reason: object) -> ConnectError:
    """The name has no address."""
    text = f"the name {host!r} does not resolve: {reason}"
    return ConnectError(Stage.RESOLVE, address, text, hint="check the spelling and the DNS")


def refused(address: str, status: int) -> ConnectError:
    """No address of the name takes a TCP connection."""
    hint = None
    if status == errno.ECONNREFUSED:
        hint = "nothing listens there; check host and port, and that the broker runs"
    return ConnectError(
        Stage.CONNECT, address, f"cannot connect to {address}: {os.strerror(status)}", hint=hint
    )


def late(address: str, stage: Stage) -> ConnectError:
    """A stage did not end in time."""
    if stage is Stage.CONNECT:
        text = f"no TCP connection to {address} in time"
        hint = "a firewall may swallow packets, or the advertised address is not reachable from here"
    elif stage is Stage.TLS:
        text = f"TLS: {address} accepts connections but does not answer as a TLS server"
        hint = "the port may not speak TLS; security.protocol is SSL or SASL_SSL only for one that does"
    elif stage is Stage.AUTHENTICATE:
        text = f"login: {address} did not answer in time"
        hint = "the broker may be overloaded, or wait for what keeps its users"
    else:
        text = f"{address} accepts connections but does not answer as a Kafka broker"
        hint = "check the port; a broker that is overloaded or still starting looks the same"
    return ConnectError(stage, address, text, hint=hint)


def closed(address: str, stage: Stage, error: OSError | None) -> ConnectError | DisconnectedError:
    """The connection ended in a stage; Stage.REQUEST for one that was ready."""
    reason = f": {error.strerror}" if error is not None and error.strerror else ""
    if stage is Stage.TLS:
        text = f"TLS: {address} closed the connection during the handshake{reason}"
        hint = "the port may not speak TLS: then security.protocol is PLAINTEXT or SASL_PLAINTEXT"
    elif stage is Stage.AUTHENTICATE:
        text = f"login: {address} closed the connection{reason}"
        hint = "the broker's log says why"
    elif stage is Stage.HANDSHAKE:
        text = f"{address} closed the connection during the handshake{reason}"
        hint = "the port may speak TLS or SASL, or not Kafka at all"
    else:
        return DisconnectedError(f"the connection to {address} was lost{reason}")
    return ConnectError(stage, address, text, hint=hint)


def unanswered(address: str, error: OSError | None) -> ConnectError | DisconnectedError:
    """A broker closed a connection without a login at its first request: what a listener with SASL does."""
    lost = closed(address, Stage.REQUEST, error)
    assert isinstance(lost, DisconnectedError)
    lost.is_unanswered = True
    return lost


def wants_login(
    address: "Address", response: "SaslHandshakeResponse", protocol: str
) -> AuthenticationError | None:
    """What a listener says when it is asked for a mechanism that it cannot have; None where it wants no login.

    Args:
        protocol: the client's ``security.protocol``.
    """
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        return None
    text = f"mechanism: the listener at {address} asks for a login; it has {', '.join(response.mechanisms) or 'none'}"
    wanted = "SASL_SSL" if protocol == "SSL" else "SASL_PLAINTEXT"
    hint = f"set security.protocol={wanted}, sasl.mechanism and sasl.jaas.config"
    return AuthenticationError(Stage.MECHANISM, str(address), text, hint=hint)


def wrong_protocol(address: str, hint: str | None) -> ConnectError:
    """What listens there is no Kafka broker."""
    return ConnectError(Stage.HANDSHAKE, address, f"{address} does not answer as a Kafka broker", hint=hint)


def broken(address: str, what: str) -> ConnectError:
    """The broker does not follow the protocol."""
    return ConnectError(Stage.HANDSHAKE, address, f"{address} {what}")


def no_exchange(address: str, error: "SaslError") -> AuthenticationError:
    """A login cannot even begin."""
    return AuthenticationError(Stage.AUTHENTICATE, address, f"login: {error}", hint="see sasl.jaas.config")


def no_ticket(address: str, service: str, error: Exception) -> AuthenticationError:
    """Kerberos gives no ticket for the broker.

    Args:
        service: that the ticket is for, as ``name@host``.
        error: what Kerberos says.
    """
    text = f"login: no Kerberos ticket for {service}: {error}"
    hint = (
        "check keyTab and principal in sasl.jaas.config (or run kinit), sasl.kerberos.service.name, the broker's host"
        " name, and krb5.conf"
    )
    return AuthenticationError(Stage.AUTHENTICATE, address, text, hint=hint)


def no_name(host: str, address: str) -> AuthenticationError:
    """The host is written in a way that no certificate can name."""
    text = f"host name: no certificate can be one for {host!r}"
    return AuthenticationError(
        Stage.HOST_NAME, address, text, hint="check bootstrap.servers and advertised.listeners"
    )


def tls_failure(host: str, address: str, error: "ssl.SSLError") -> AuthenticationError | ConnectError:
    """TLS failed: one side does not trust the other, or the two do not agree.

    Args:
        host: the name that was connected to.
        address: with the port.
        error: as OpenSSL has it.
    """
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return _not_trusted(host, address, error)
    reason = error.reason or str(error)
    if "WRONG_VERSION_NUMBER" in reason or "UNEXPECTED_MESSAGE" in reason or "HTTP_REQUEST" in reason:
        text = f"TLS: {address} does not answer as a TLS server"
        hint = "the port may not speak TLS: then security.protocol is PLAINTEXT or SASL_PLAINTEXT"
        return AuthenticationError(Stage.TLS, address, text, hint=hint)
    words = reason.replace("_", " ").lower()
    text = f"TLS: the handshake with {address} failed: {words}"
    return AuthenticationError(Stage.TLS, address, text, hint=_hint_at_alert(reason))


def _hint_at_alert(reason: str) -> str | None:
    if "PROTOCOL_VERSION" in reason or "UNSUPPORTED_PROTOCOL" in reason:
        return "the two sides have no version of TLS in common; see ssl.enabled.protocols"
    if any(each in reason for each in _WANTS_CERTIFICATE):
        return (
            "the broker may ask for a certificate of this client (ssl.keystore.*), or the two have no cipher suite in "
            "common (ssl.cipher.suites)"
        )
    if any(each in reason for each in _NO_CERTIFICATE_TRUSTED):
        return "the broker does not trust the certificate in ssl.keystore.*"
    if "TOO_SMALL" in reason or "TOO_WEAK" in reason:
        return "OpenSSL takes no key of less than 2048 bits and no SHA-1; the broker needs a stronger certificate"
    return None


def _not_trusted(host: str, address: str, error: "ssl.SSLCertVerificationError") -> AuthenticationError:
    code, said = error.verify_code, error.verify_message
    if code in _HOST_NAME_CODES:
        text = f"host name: the certificate of {address} is not one for {host}"
        hint = (
            "connect by a name that is in the certificate, or give the broker one with this name; "
            "ssl.endpoint.identification.algorithm= (empty) turns the check off"
        )
        return AuthenticationError(Stage.HOST_NAME, address, text, hint=hint)
    if code in _DATE_CODES:
        hint = "the broker needs a new certificate, or a clock is wrong"
    elif code in _UNKNOWN_ISSUER_CODES:
        hint = "name the authority that signed it in ssl.truststore.location"
    elif code in _WEAK_CODES:
        hint = "OpenSSL takes no key of less than 2048 bits and no SHA-1; the broker needs a stronger certificate"
    else:
        hint = "see ssl.truststore.location"
    text = f"TLS: the certificate of {address} is not trusted: {said}"
    return AuthenticationError(Stage.TLS, address, text, hint=hint)
