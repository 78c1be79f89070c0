"""Keys and certificates as operators keep them: PEM, Java's JKS, PKCS#12.

:func:`certificates` reads a truststore, :func:`key_entry` a keystore. Which of the three a file is, its first
bytes say: Java too opens a PKCS#12 file that is declared as JKS, since keytool makes PKCS#12 unless it is told
otherwise. Pure: bytes in, PEM out.
"""

from typing import Final, NamedTuple

from pkafka.errors import PkafkaError

STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")
_JKS: Final = b"\xfe\xed\xfe\xed"
_JCEKS: Final = b"\xce\xce\xce\xce"
_ASN1_SEQUENCE: Final = b"\x30"


class StoreError(PkafkaError):
    """A store cannot be read: it is damaged, of another format, or the password is wrong."""


class WrongPasswordError(StoreError):
    """The password does not open the store."""


class KeyEntry(NamedTuple):
    """A private key and its certificates, for OpenSSL.

    The key's own password stays in force where the PEM text is encrypted.
    """

    pem: bytes
    password: str | None

    def __repr__(self) -> str:
        return "KeyEntry(...)"


def certificates(data: bytes, store_type: str, password: str | None) -> list[bytes]:
    """The certificates that a truststore holds, each in DER.

    Args:
        data: the file.
        store_type: ``JKS``, ``PKCS12`` or ``PEM``, as declared.
        password: of the store; None reads what needs none, without a check that the file is whole.

    Raises:
        WrongPasswordError: the password is wrong.
        StoreError: the file is damaged or holds no certificate.
    """
    found_type = _type_of(data, store_type)
    if found_type == "PEM":
        from pkafka.security.stores import pem

        found = pem.certificates(data)
    elif found_type == "JKS":
        from pkafka.security.stores import jks

        found = jks.read(data, password).trusted()
    else:
        from pkafka.security.stores import pkcs12

        found = pkcs12.certificates(data, password)
    if not found:
        raise StoreError("holds no certificate that could be trusted")
    return found


def key_entry(data: bytes, store_type: str, password: str | None, key_password: str | None) -> KeyEntry:
    """The private key of a keystore with its certificates.

    Args:
        data: the file.
        store_type: as declared.
        password: of the store.
        key_password: of the key; None: that of the store.

    Raises:
        WrongPasswordError: a password is wrong.
        StoreError: the file is damaged or holds no key.
    """
    found_type = _type_of(data, store_type)
    if found_type == "PEM":
        from pkafka.security.stores import pem

        return KeyEntry(pem.key_and_chain(data), key_password)
    key_password = password if key_password is None else key_password
    if found_type == "JKS":
        from pkafka.security.stores import jks

        return KeyEntry(jks.read(data, password).key_and_chain(key_password or ""), None)
    from pkafka.security.stores import pkcs12

    return KeyEntry(pkcs12.key_and_chain(data, password), None)


def _type_of(data: bytes, declared: str) -> str:
    if declared == "PEM":
        return "PEM"
    if data.startswith(_JCEKS):
        raise StoreError("is of type JCEKS: convert it with keytool -importkeystore -deststoretype PKCS12")
    if data.startswith(_JKS):
        return "JKS"
    if data.startswith(_ASN1_SEQUENCE):
        return "PKCS12"
    hint = "; it looks like PEM: set its type to PEM" if b"-----BEGIN" in data else ""
    raise StoreError(f"is neither a JKS nor a PKCS#12 file{hint}")
