"""A real Kerberos KDC (MIT) of one realm, on a free port, with everything of it in one directory.

Nothing of the machine's own Kerberos is read: who is to know the realm gets :attr:`Kdc.environment`.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.sockets import free_port
from tests.talk import wait_for

REALM: Final = "PKAFKA.TEST"
_PASSWORD: Final = "of-the-tests"
_PROGRAMS: Final = ("krb5kdc", "kadmin.local", "kdb5_util", "kinit")
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_START_TIMEOUT_S: Final = 30


def missing() -> str | None:
    """What this machine lacks for Kerberos, with the command that installs it; None when it is all there."""
    lacking = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if lacking:
        return f"no {', '.join(lacking)}: sudo apt-get install -y krb5-kdc krb5-admin-server krb5-user"
    if find_spec("gssapi") is None:
        return "no gssapi: sudo apt-get install -y libkrb5-dev, then pip install 'pkafka[kerberos]'"
    return None


class Kdc:
    """A KDC that runs, and the keytabs that it gave.

    Args:
        directory: gets its data base, its log, krb5.conf and keytabs.
        port: that it listens at.
    """

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.config = directory / "krb5.conf"
        self._port = port
        self.environment: Mapping[str, str] = {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory}/no-tickets",
            "KRB5RCACHEDIR": str(directory),  # what brokers note of tickets that they have seen
        }
        """For the processes that are to know the realm."""

    def write(self) -> None:
        """Write the configuration, and make the data base."""
        self.config.write_text(
            f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
            "dns_canonicalize_hostname = false\nrdns = false\nudp_preference_limit = 1\n"
            f"[realms]\n{REALM} = {{\nkdc = 127.0.0.1:{self._port}\n}}\n"
            f"[domain_realm]\nlocalhost = {REALM}\n127.0.0.1 = {REALM}\n"
        )
        (self.directory / "kdc.conf").write_text(
            f"[kdcdefaults]\nkdc_listen = 127.0.0.1:{self._port}\nkdc_tcp_listen = 127.0.0.1:{self._port}\n"
            f"[realms]\n{REALM} = {{\ndatabase_name = {self.directory}/principal\n"
            f"key_stash_file = {self.directory}/stash\nmax_life = 1h\n}}\n"
            f"[logging]\nkdc = FILE:{self.directory}/kdc.log\n"
        )
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", _PASSWORD)

    def run(self, program: str, *words: str, stdin: str = "") -> str:
        """Run a program of Kerberos's in the realm."""
        found = shutil.which(program, path=_PATH)
        assert found is not None
        environment = {**os.environ, **self.environment}
        done = subprocess.run(
            [found, *words], env=environment, input=stdin, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done
        return done.stdout

    def add(self, principal: str) -> None:
        """Make a principal with a key by chance."""
        self.run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)

    def keytab(self, name: str, *principals: str) -> Path:
        """A file with the keys of principals, as they are now."""
        path = self.directory / name
        self.run("kadmin.local", "-r", REALM, "ktadd", "-norandkey", "-k", str(path), *principals)
        return path

    def change_key(self, principal: str) -> None:
        """Give a principal a new key: earlier keytabs no longer have it."""
        self.run("kadmin.local", "-r", REALM, "cpw", "-randkey", principal)

    def tickets(self, name: str, principal: str, keytab: Path, *words: str) -> str:
        """A ticket cache, as kinit makes it."""
        cache = f"FILE:{self.directory}/{name}"
        self.run("kinit", "-c", cache, "-k", "-t", str(keytab), *words, principal)
        return cache

    def has_tickets(self, cache: str) -> bool:
        """Whether the tickets in a cache still count."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(["klist", "-s", "-c", cache], env=environment, timeout=60, check=False)
        return done.returncode == 0


@contextlib.contextmanager
def running_kdc(directory: Path) -> Iterator[Kdc]:
    """A KDC with an empty realm."""
    directory.mkdir(parents=True, exist_ok=True)
    kdc = Kdc(directory, free_port())
    kdc.write()
    program = shutil.which("krb5kdc", path=_PATH)
    assert program is not None
    process = subprocess.Popen(
        [program, "-n", "-r", REALM],
        env={**os.environ, **kdc.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    log = directory / "kdc.log"
    try:
        wait_for(
            lambda: log.exists() and "commencing operation" in log.read_text(), timeout_s=_START_TIMEOUT_S
        )
        yield kdc
    finally:
        process.terminate()
        process.wait()
