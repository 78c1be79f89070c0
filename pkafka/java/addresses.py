"""Addresses as Java writes them: InetAddress.getHostAddress and InetAddress.toString."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address


@lru_cache(maxsize=1_000)
def host_address(host: str) -> str:
    """InetAddress.getHostAddress: all eight groups of an IPv6 address, without leading zeros; others as they are."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    zone = "" if address.scope_id is None else f"%{address.scope_id}"
    groups = (int(group, 16) for group in IPv6Address(int(address)).exploded.split(":"))
    return ":".join(f"{group:x}" for group in groups) + zone


def java_text_of(host: str) -> str:
    """InetAddress.toString of an address without a name: Kafka stores and shows the hosts of members so."""
    return f"/{host_address(host)}"
