"""Certificates for a throw-away cluster: an authority that signs a few and is forgotten.

The package ``cryptography`` of the extra ``tls`` makes them, else the command ``openssl``. The authority's key is
written nowhere that lasts: what it has not signed at the start it never signs.
"""

import contextlib
import ipaddress
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pkafka.errors import PkafkaError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY_FILE: Final = "ca.pem"
AUTHORITY_NAME: Final = "pkafka throw-away CA"
DAYS: Final = 365
_CLOCKS_DIFFER_BY: Final = timedelta(hours=1)
_OPENSSL_TIMEOUT_S: Final = 30.0
_OPENSSL_CONFIG: Final = """\
[req]
distinguished_name = name
x509_extensions = authority
prompt = no
[name]
CN = {name}
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[holder]
basicConstraints = critical, CA:FALSE
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
{hosts}
"""


class CertificatesError(PkafkaError):
    """No certificate can be made here; the text says what is missing and what installs it."""


def own_hosts() -> list[str]:
    """By what names clients reach a broker of this machine."""
    hosts = ["localhost", "127.0.0.1", "::1"]
    name = socket.gethostname()
    return [*hosts, name] if name.isascii() and name not in hosts else hosts


def make_certificates(directory: Path, holders: Mapping[str, Sequence[str]]) -> None:
    """Make an authority and sign a certificate for each holder, good for :data:`DAYS`, for servers and for clients.

    Args:
        directory: gets ``ca.pem``, and for each holder ``NAME.pem`` with key and certificate, which only the owner
            can read.
        holders: the hosts that each is for, by common name; a client needs none.

    Raises:
        CertificatesError: neither ``cryptography`` nor ``openssl`` is there, or openssl failed.
        OSError: the directory cannot be written.
    """
    try:
        import cryptography  # noqa: F401 - asked for only
    except ImportError:
        _by_openssl(directory, holders)
    else:
        _by_package(directory, holders)


def write_private(path: Path, text: str | bytes) -> None:
    """Write a file that nobody but its owner could read at any time.

    Raises:
        OSError: it cannot be written, or is there already.
    """
    data = text.encode() if isinstance(text, str) else text
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def _by_package(directory: Path, holders: Mapping[str, Sequence[str]]) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate(AUTHORITY_NAME, key, None, key, ())
    write_private(directory / AUTHORITY_FILE, authority.public_bytes(Encoding.PEM))
    for name, hosts in holders.items():
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, own, authority, key, hosts)
        own_pem = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_private(directory / f"{name}.pem", own_pem + certificate.public_bytes(Encoding.PEM))


def _certificate(
    name: str,
    key: "ec.EllipticCurvePrivateKey",
    authority: "x509.Certificate | None",
    authority_key: "ec.EllipticCurvePrivateKey",
    hosts: Sequence[str],
) -> "x509.Certificate":
    """A certificate; without an authority its own, which may sign others."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signs = authority is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER_BY)
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
        .add_extension(_key_usage(signs=signs), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if authority is not None:
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(issuer, critical=False).add_extension(usage, critical=False)
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _key_usage(*, signs: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    return x509.IPAddress(ipaddress.ip_address(host)) if _is_address(host) else x509.DNSName(host)


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False


def _by_openssl(directory: Path, holders: Mapping[str, Sequence[str]]) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise CertificatesError(
            "certificates need the package cryptography or the command openssl, and neither is here: "
            "pip install 'pkafka[tls]' brings the first"
        )
    with tempfile.TemporaryDirectory(dir=directory) as folder:  # only its owner may look into it
        place = Path(folder)
        _openssl_key(program, place, "ca", AUTHORITY_NAME, ())
        new = ("-new", "-x509", "-sha256", "-days", str(DAYS), "-key", "ca.key", "-config", "ca.conf")
        _openssl(program, place, "req", *new, "-out", "ca.crt")
        write_private(directory / AUTHORITY_FILE, (place / "ca.crt").read_bytes())
        for number, (name, hosts) in enumerate(holders.items()):
            pem = _openssl_signed(program, place, f"holder-{number}", name, hosts)
            write_private(directory / f"{name}.pem", pem)


def _openssl_signed(program: str, place: Path, stem: str, name: str, hosts: Sequence[str]) -> bytes:
    _openssl_key(program, place, stem, name, hosts)
    _openssl(
        *(program, place, "req", "-new", "-sha256", "-key", f"{stem}.key"),
        *("-config", f"{stem}.conf", "-out", f"{stem}.csr"),
    )
    _openssl(
        *(program, place, "x509", "-req", "-sha256", "-days", str(DAYS), "-in", f"{stem}.csr"),
        *("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-extfile", f"{stem}.conf", "-extensions", "holder", "-out", f"{stem}.crt"),
    )
    return (place / f"{stem}.key").read_bytes() + (place / f"{stem}.crt").read_bytes()


def _openssl_key(program: str, place: Path, stem: str, name: str, hosts: Sequence[str]) -> None:
    """Make a key, and the configuration of its certificate."""
    kinds = [f"{'IP' if _is_address(host) else 'DNS'}:{host}" for host in hosts]
    line = f"subjectAltName = {', '.join(kinds)}" if kinds else ""
    (place / f"{stem}.conf").write_text(_OPENSSL_CONFIG.format(name=name, hosts=line), encoding="ascii")
    curve = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    _openssl(program, place, "genpkey", *curve, "-out", f"{stem}.key")


def _openssl(program: str, place: Path, *arguments: str) -> None:
    done = subprocess.run(
        [program, *arguments],
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_OPENSSL_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise CertificatesError(
            f"openssl {arguments[0]} failed: {said}; pip install 'pkafka[tls]' does without it"
        )
