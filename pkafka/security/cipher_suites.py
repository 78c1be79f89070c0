"""``ssl.cipher.suites``: from the names of IANA, which Java has, to those of OpenSSL. Pure."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from pkafka.errors import ConfigError

_KEY: Final = "ssl.cipher.suites"
TLS_1_3: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
"""The suites that OpenSSL offers under TLS 1.3; Python cannot choose among them."""
_KNOWN: Final = re.compile(
    r"TLS_(?P<exchange>ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|DHE_DSS|RSA)_WITH_"
    r"(?P<cipher>AES|CAMELLIA|ARIA)_(?P<bits>128|256)_(?P<mode>CBC|GCM|CCM|CCM_8)(?:_(?P<mac>SHA|SHA256|SHA384))?"
)
_CHACHA: Final = re.compile(r"TLS_(?P<exchange>ECDHE_ECDSA|ECDHE_RSA|DHE_RSA)_WITH_CHACHA20_POLY1305_SHA256")
_MODES: Final = {"CBC": "", "GCM": "-GCM", "CCM": "-CCM", "CCM_8": "-CCM8"}


class Suites(NamedTuple):
    """What a list of suites means to OpenSSL."""

    older: str
    """Those of TLS 1.2, as ``set_ciphers`` takes them; empty for none."""
    has_1_3: bool
    """Whether TLS 1.3 is offered: with all of its suites."""


def suites(names: Sequence[str]) -> Suites:
    """What a list means.

    Args:
        names: of IANA; a name that does not begin with ``TLS_`` is taken for one of OpenSSL.

    Raises:
        ConfigError: a name is not known, or some but not all suites of TLS 1.3 are listed.
    """
    newer = {name for name in names if name in TLS_1_3}
    if newer and newer != TLS_1_3:
        problem = (
            f"names {', '.join(sorted(newer))}, and OpenSSL takes all suites of TLS 1.3 or none: list all of "
            f"{', '.join(sorted(TLS_1_3))}, or none of them"
        )
        raise ConfigError(_KEY, problem)
    older = [_openssl_name(name) for name in names if name not in TLS_1_3]
    return Suites(":".join(older), bool(newer))


def _openssl_name(name: str) -> str:
    if not name.startswith("TLS_"):
        return name
    chacha = _CHACHA.fullmatch(name)
    if chacha is not None:
        return f"{chacha['exchange'].replace('_', '-')}-CHACHA20-POLY1305"
    found = _KNOWN.fullmatch(name)
    if found is None:
        raise ConfigError(_KEY, "is not a suite that OpenSSL has", name)
    exchange = "" if found["exchange"] == "RSA" else f"{found['exchange'].replace('_', '-')}-"
    mac = f"-{found['mac']}" if found["mac"] else ""
    return f"{exchange}{found['cipher']}{found['bits']}{_MODES[found['mode']]}{mac}"
