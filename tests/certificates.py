"""Certificates for tests: an authority, and keys that it has signed, in the forms that brokers and clients read."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

_DAY: Final = timedelta(days=1)


class Authority:
    """What signs certificates.

    Args:
        name: its common name.
    """

    def __init__(self, name: str = "Test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        now = datetime.now(UTC)
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + 30 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        """The authority's own certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def der(self) -> bytes:
        """The same in DER."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def revoking(self, *revoked: "Signed", days: int = 5) -> bytes:
        """A list of revoked certificates, in PEM.

        Args:
            revoked: those that it names.
            days: until the next list is due; negative for a list that is over.
        """
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - 20 * _DAY)
            .next_update(now + days * _DAY)
        )
        for one in revoked:
            entry = x509.RevokedCertificateBuilder().serial_number(one.certificate.serial_number)
            builder = builder.add_revoked_certificate(entry.revocation_date(now - _DAY).build())
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def signed(self, name: str, hosts: Sequence[str] = (), *, days: int = 10) -> "Signed":
        """A new key with a certificate.

        Args:
            name: its common name.
            hosts: names and addresses that it is for.
            days: until its end; negative for one that is over.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 20 * _DAY)
            .not_valid_after(now + days * _DAY)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(each) for each in hosts]), critical=False
            )
        return Signed(key, builder.sign(self._key, hashes.SHA256()), self.certificate)


class Signed:
    """A key and its certificate."""

    def __init__(
        self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, authority: x509.Certificate
    ) -> None:
        self._key = key
        self.certificate = certificate
        self._authority = authority

    @property
    def chain_pem(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def chain_der(self) -> bytes:
        """The same in DER."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def key_pem(self, password: str | None = None) -> bytes:
        """The key in PKCS#8."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )

    @property
    def key_der(self) -> bytes:
        """The key in PKCS#8, in DER."""
        return self._key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def pkcs12(self, password: str) -> bytes:
        """Key and certificates in one file."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(
            b"key", self._key, self.certificate, [self._authority], encryption
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
