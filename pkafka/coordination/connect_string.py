"""What ``zookeeper.connect`` says: the servers, and the node below which everything is kept."""

from pkafka.coordination.store import check_path


def split_connect(connect: str) -> tuple[str, str]:
    """Servers and chroot (empty or beginning with a slash) of ``host:port,host:port/chroot``.

    Raises:
        ValueError: it names no server, or the chroot is no path.
    """
    hosts, slash, chroot = connect.partition("/")
    chroot = (slash + chroot).rstrip("/")
    if not hosts.strip():
        raise ValueError(f"{connect!r} names no ZooKeeper server")
    if chroot:
        check_path(chroot)
    for host in hosts.split(","):
        _check_name(host.partition(":")[0].strip())
    return hosts, chroot


def _check_name(host: str) -> None:
    """See that a name can be looked up: kazoo would find out on a thread of its own, and never connect.

    Raises:
        ValueError: it cannot.
    """
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError(f"{host!r} cannot be the name of a host") from None
