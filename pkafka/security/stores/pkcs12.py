"""PKCS#12 files, which keytool and OpenSSL make; read by the package ``cryptography`` (the extra ``pkafka[tls]``)."""

from typing import TYPE_CHECKING

from pkafka.security.stores import StoreError, WrongPasswordError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates


def certificates(data: bytes, password: str | None) -> list[bytes]:
    """Every certificate of a file, in DER; also one without the mark by which keytool says that it is trusted.

    Raises:
        WrongPasswordError: the password is wrong.
        StoreError: the file is damaged, or the package that reads it is not installed.
    """
    store = _read(data, password)
    from cryptography.hazmat.primitives.serialization import Encoding

    found = [each.certificate for each in store.additional_certs]
    if store.cert is not None:
        found.insert(0, store.cert.certificate)
    return [each.public_bytes(Encoding.DER) for each in found]


def key_and_chain(data: bytes, password: str | None) -> bytes:
    """The private key of a file and its certificates, as PEM.

    Raises:
        WrongPasswordError: the password is wrong.
        StoreError: the file is damaged or has no key, or the package that reads it is not installed.
    """
    store = _read(data, password)
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if store.key is None:
        raise StoreError("holds no private key")
    if store.cert is None:
        raise StoreError("has a private key but no certificate for it")
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [store.cert, *store.additional_certs]
    return key + b"".join(each.certificate.public_bytes(Encoding.PEM) for each in chain)


def _read(data: bytes, password: str | None) -> "PKCS12KeyAndCertificates":
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise StoreError(
            "is a PKCS#12 file: pip install 'pkafka[tls]' brings what reads it; PEM and JKS need nothing more"
        ) from None
    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        if "password" in str(error).lower() or "mac" in str(error).lower():
            raise WrongPasswordError("cannot be opened: the password is incorrect") from None
        raise StoreError("is damaged, or has a form of PKCS#12 that is not known") from None
