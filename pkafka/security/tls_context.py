"""OpenSSL's contexts, made of Kafka's ``ssl.*`` keys. Imported only where a connection is encrypted."""

import contextlib
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from pkafka.errors import ConfigError
from pkafka.security.cipher_suites import suites
from pkafka.security.stores import STORE_TYPES, StoreError, WrongPasswordError, certificates, key_entry

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CRL_KEY: Final = "pkafka.ssl.crl.location"
_CRL: Final = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)
_TURNS_MAX: Final = 10
"""More than either side of a handshake has to say."""
_OLD_VERSIONS: Final = frozenset({"TLSv1", "TLSv1.1"})
"""Java has them switched off, also where `ssl.enabled.protocols` lists them."""


class Store(NamedTuple):
    """Where keys or certificates are, by one family of keys.

    Args:
        kind: ``keystore`` or ``truststore``, for error texts.
        store_type: ``JKS``, ``PKCS12`` or ``PEM``.
        location: of the file; empty where the text stands in the configuration itself.
        inline: the PEM text that stands there.
        password: of the store.
        key_password: of the key.
    """

    kind: str
    store_type: str
    location: str = ""
    inline: str = ""
    password: str | None = None
    key_password: str | None = None

    def __repr__(self) -> str:
        return f"Store({self.kind}, {self.store_type}, {self.location!r})"

    def modified_ns(self) -> int:
        """When the file was changed last; 0 when there is none."""
        return modified_ns(self.location) if self.location else 0

    def read(self) -> bytes:
        """The store's bytes.

        Raises:
            ConfigError: the file cannot be read.
        """
        if not self.location:
            return self.inline.encode()
        try:
            return Path(self.location).read_bytes()
        except OSError as error:
            problem = f"cannot be read: {error.strerror or error}"
            raise ConfigError(f"ssl.{self.kind}.location", problem, self.location) from None


def modified_ns(path: str) -> int:
    """When a file was changed last; 0 when there is none."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


class TlsSettings(NamedTuple):
    """What Kafka's ``ssl.*`` keys say, checked for sense where the context is made.

    Args:
        enabled_protocols: versions by Java's names.
        cipher_suites: names of IANA; empty leaves the choice to OpenSSL.
        checks_name: whether the certificate has to name the host that was connected to.
        truststore: whom to trust; None: the certificate authorities of the system.
        keystore: this side's own key; None: it has none.
        revoked: path of the lists of certificates that are revoked, in PEM; empty: none is looked at.
    """

    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    checks_name: bool = True
    truststore: Store | None = None
    keystore: Store | None = None
    revoked: str = ""

    def modified_ns(self) -> tuple[int, ...]:
        """When the files were changed last; another value means that they are to be read again."""
        stores = tuple(store.modified_ns() for store in (self.truststore, self.keystore) if store is not None)
        return (*stores, modified_ns(self.revoked)) if self.revoked else stores


class ClientAuth(Enum):
    """Whether a server wants to see a client's certificate (``ssl.client.auth``)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


_VERIFY_MODES: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


def server_context(settings: TlsSettings, client_auth: ClientAuth) -> ssl.SSLContext:
    """The context of connections that a server takes.

    Raises:
        ConfigError: as :func:`client_context`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY_MODES[client_auth]
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    # A client that only writes would leave tickets unread when it closes: the kernel then resets the connection, and
    # what it wrote last is lost (openssl/openssl#10880).
    context.num_tickets = 0
    _choose_versions(context, settings)
    if settings.truststore is not None:
        _load_trust(context, settings.truststore)
    elif client_auth is not ClientAuth.NONE:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    if settings.keystore is not None:
        _load_key(context, settings.keystore)
    if settings.revoked:
        _load_revoked(context, settings.revoked)
    return context


def disagreement(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    """Why a client and a server cannot shake hands, whatever their hosts are; None where they can."""
    client.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(_TURNS_MAX):
            ends = [end for end in ends if not _shakes_hands(end)]
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return (error.reason or str(error)).replace("_", " ").lower()
    return "the handshake has no end" if ends else None


def _shakes_hands(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def own_certificate(settings: TlsSettings) -> bytes:
    """The certificate that this side shows, in DER.

    Raises:
        ConfigError: the store cannot be read, or there is none.
    """
    store = settings.keystore
    if store is None:
        raise ConfigError("ssl.keystore.location", "is missing")
    with _explained(store):
        entry = key_entry(store.read(), store.store_type, store.password, store.key_password)
        return certificates(entry.pem, "PEM", None)[0]


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of connections that a client opens.

    Raises:
        ConfigError: a store cannot be read, or a version or a suite is not here; names the key, shows no secret.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_name
    # Java takes every certificate of a truststore for an anchor, also one that another signed.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _choose_versions(context, settings)
    if settings.truststore is None:
        context.load_default_certs()
    else:
        _load_trust(context, settings.truststore)
    if settings.keystore is not None:
        _load_key(context, settings.keystore)
    if settings.revoked:
        _load_revoked(context, settings.revoked)
    return context


def _choose_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    unknown = [
        each for each in settings.enabled_protocols if each not in _VERSIONS and each not in _OLD_VERSIONS
    ]
    versions = {_VERSIONS[each] for each in settings.enabled_protocols if each in _VERSIONS}
    if unknown or not versions:
        value = ",".join(settings.enabled_protocols)
        raise ConfigError("ssl.enabled.protocols", "must name TLSv1.2, TLSv1.3 or both", value)
    if settings.cipher_suites:
        chosen = suites(settings.cipher_suites)
        versions = {
            each for each in versions if (chosen.has_1_3 if each is ssl.TLSVersion.TLSv1_3 else chosen.older)
        }
        if not versions:
            raise ConfigError("ssl.cipher.suites", "has no suite for any version of ssl.enabled.protocols")
        if chosen.older:
            _choose_suites(context, chosen.older)
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)


def _choose_suites(context: ssl.SSLContext, names: str) -> None:
    try:
        context.set_ciphers(names)
    except ssl.SSLError:
        raise ConfigError("ssl.cipher.suites", "has no suite that this OpenSSL offers", names) from None


def _load_trust(context: ssl.SSLContext, store: Store) -> None:
    with _explained(store):
        found = certificates(store.read(), store.store_type, store.password)
        try:
            context.load_verify_locations(cadata=b"".join(found))
        except (ssl.SSLError, ValueError):
            raise StoreError("has a certificate that OpenSSL cannot read") from None


def _load_revoked(context: ssl.SSLContext, path: str) -> None:
    """Refuse certificates of the other side that the lists name. Those of authorities are not looked up."""
    try:
        lists = _CRL.findall(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(CRL_KEY, f"cannot be read: {error.strerror or error}", path) from None
    if not lists:
        raise ConfigError(CRL_KEY, "has no list of revoked certificates in PEM (BEGIN X509 CRL)", path)
    # Only the lists: a certificate beside them would be trusted.
    with _as_file(b"\n".join(lists) + b"\n") as file:
        try:
            context.load_verify_locations(cafile=file)
        except ssl.SSLError:
            raise ConfigError(CRL_KEY, "has a list that OpenSSL cannot read", path) from None
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_key(context: ssl.SSLContext, store: Store) -> None:
    with _explained(store):
        entry = key_entry(store.read(), store.store_type, store.password, store.key_password)
        with _as_file(entry.pem) as path:
            try:
                # A function: without one OpenSSL would ask at the terminal.
                context.load_cert_chain(path, password=lambda: entry.password or "")
            except ssl.SSLError as error:
                raise _key_error(error) from None


def _key_error(error: ssl.SSLError) -> StoreError:
    reason = error.reason or ""
    if "MISMATCH" in reason:
        return StoreError("has a private key that does not belong to its first certificate")
    if "TOO_WEAK" in reason or "TOO_SMALL" in reason:
        return StoreError("has a certificate whose key or digest is too weak for OpenSSL (1024 bits, SHA-1)")
    if "CERT" in reason:
        return StoreError("has a certificate that OpenSSL cannot read")
    return WrongPasswordError("has a key that cannot be opened: the password is incorrect, or there is none")


@contextlib.contextmanager
def _explained(store: Store) -> Iterator[None]:
    """Say in which key of the configuration the trouble is."""
    if store.store_type not in STORE_TYPES:
        problem = f"must be one of {', '.join(STORE_TYPES)}"
        raise ConfigError(f"ssl.{store.kind}.type", problem, store.store_type)
    try:
        yield
    except StoreError as error:
        place = store.location or "the text in the configuration"
        ending = "password" if isinstance(error, WrongPasswordError) else "location"
        if ending == "password" and store.store_type == "PEM":
            key = "ssl.key.password"  # a PEM store has no other
        elif ending == "location" and not store.location:
            key = f"ssl.{store.kind}.type"
        else:
            key = f"ssl.{store.kind}.{ending}"
        raise ConfigError(key, f"{place} {error}") from None


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path at which OpenSSL can read a key: in memory where the system has such files, with no name on a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pkafka-key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="pkafka-key-") as file:  # only its owner can read it
        file.write(content)
        file.flush()
        yield file.name
