"""The only module that knows the package ``gssapi``, which speaks Kerberos; the extra ``pkafka[kerberos]`` brings it.

The package is loaded with the first credentials. What waits for a KDC are the first steps of clients; a broker reads
its keytab and the client's ticket, and asks nobody.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from pkafka.errors import ConfigError
from pkafka.security.sasl.gssapi import GssError

if TYPE_CHECKING:
    import gssapi

MODULE: Final = "Krb5LoginModule"
"""Java's login module, whose options say where tickets come from."""
_MISSING: Final = "asks for GSSAPI (Kerberos), which needs: pip install 'pkafka[kerberos]'"


class Krb5Options(NamedTuple):
    """The options of a login module that count here."""

    principal: str
    """Empty: that of the ticket cache."""
    keytab: str
    """Empty: of the environment (KRB5_KTNAME, krb5.conf)."""
    uses_keytab: bool
    uses_ticket_cache: bool
    ticket_cache: str
    """Empty: of the environment (KRB5CCNAME, krb5.conf)."""
    service: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Krb5Options":
        """What a JAAS configuration says."""

        def is_on(name: str) -> bool:
            return options.get(name, "").lower() == "true"

        return cls(
            options.get("principal", ""),
            options.get("keyTab", "").removeprefix("file:"),
            is_on("useKeyTab"),
            is_on("useTicketCache"),
            options.get("ticketCache", ""),
            options.get("serviceName", ""),
        )


def service_name(options: Krb5Options, key: str | None) -> str:
    """The first part of the brokers' principal, which two places may say.

    Args:
        options: of the login module.
        key: ``sasl.kerberos.service.name``.

    Raises:
        ConfigError: neither says it, or they contradict each other.
    """
    if key and options.service and key != options.service:
        problem = f"conflicts with serviceName={options.service} in sasl.jaas.config"
        raise ConfigError("sasl.kerberos.service.name", problem, key)
    name = key or options.service
    if not name:
        problem = "is missing: the first part of the brokers' principal, most often kafka"
        raise ConfigError("sasl.kerberos.service.name", problem)
    return name


def check_package(key: str) -> None:
    """See whether the package is there.

    Args:
        key: that asks for it.

    Raises:
        ConfigError: it is not.
    """
    if find_spec("gssapi") is None:
        raise ConfigError(key, _MISSING)


class Context:
    """One end of a context, with Kerberos behind it; see GssContext.

    Args:
        make: gives the library's context at the first step.
    """

    def __init__(self, make: Callable[[], "gssapi.SecurityContext"]) -> None:
        self._make = make
        self._made: gssapi.SecurityContext | None = None

    @property
    def is_established(self) -> bool:
        """Whether this end trusts the other."""
        return self._made is not None and bool(self._made.complete)

    def step(self, token: bytes | None) -> bytes | None:
        """The next token; a client's may wait for the KDC."""
        with _errors():
            if self._made is None:
                self._made = self._make()
                # An error counts at once, and not with the step after its token.
                self._made.__DEFER_STEP_ERRORS__ = False
            answer: bytes | None = self._made.step(token)
            return answer

    def wrap(self, data: bytes) -> bytes:
        """The data with proof of who sent it."""
        with _errors():
            wrapped: bytes = self._context().wrap(data, False).message
            return wrapped

    def unwrap(self, data: bytes) -> bytes:
        """What the other end wrapped."""
        with _errors():
            unwrapped: bytes = self._context().unwrap(data).message
            return unwrapped

    def initiator(self) -> str:
        """The principal that began the context."""
        with _errors():
            return str(self._context().initiator_name)

    def _context(self) -> "gssapi.SecurityContext":
        assert self._made is not None
        return self._made


def client_context(options: Krb5Options, service: str, host: str) -> tuple[Context, str]:
    """A client's end, and the principal that it acts for.

    Args:
        options: where its tickets come from.
        service: the first part of the broker's principal.
        host: the broker's.

    Raises:
        GssError: there is no keytab or no ticket cache that has a ticket, or the KDC gives none.
    """
    import gssapi

    try:
        with _errors():
            credentials = _own(options, "initiate")
            target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
            acts_for = str(credentials.name)
    except GssError:
        if options.uses_keytab and not options.uses_ticket_cache:
            Acceptor(options).check()  # says more of a keytab that lacks, or lacks the principal
        raise
    flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity

    def make() -> gssapi.SecurityContext:
        kerberos = gssapi.MechType.kerberos
        return gssapi.SecurityContext(
            name=target, creds=credentials, usage="initiate", mech=kerberos, flags=flags
        )

    return Context(make), acts_for


class Acceptor:
    """A broker's keys, by which it reads tickets; looked at with the first ticket.

    Args:
        options: where they are.
    """

    def __init__(self, options: Krb5Options) -> None:
        self._options = options
        self._credentials: gssapi.Credentials | None = None

    def check(self) -> None:
        """Look at the keytab now.

        Raises:
            GssError: it cannot be read, or lacks the principal.
        """
        with _errors():
            self._credentials = _own(self._options, "accept")

    def context(self) -> Context:
        """A broker's end, new."""
        return Context(self._new)

    def _new(self) -> "gssapi.SecurityContext":
        import gssapi

        if self._credentials is None:
            self._credentials = _own(self._options, "accept")
        return gssapi.SecurityContext(creds=self._credentials, usage="accept")


def default_realm() -> str:
    """The realm of this machine; empty where krb5.conf names none."""
    import gssapi
    from gssapi.exceptions import GSSError

    try:
        name = gssapi.Name("nobody", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos)
    except GSSError:
        return ""
    return str(name).rpartition("@")[2]


def _own(options: Krb5Options, usage: str) -> "gssapi.Credentials":
    import gssapi

    name = gssapi.Name(options.principal, gssapi.NameType.kerberos_principal) if options.principal else None
    store: dict[str, str] = {}
    if options.uses_keytab:
        if options.keytab:
            store["keytab" if usage == "accept" else "client_keytab"] = options.keytab
        if usage == "initiate" and not options.uses_ticket_cache:
            # Tickets by this keytab, and none that lie about in the user's cache.
            store["ccache"] = f"MEMORY:{options.principal} {options.keytab}"
    if options.uses_ticket_cache and options.ticket_cache:
        store["ccache"] = options.ticket_cache
    mechanisms = [gssapi.MechType.kerberos]
    return gssapi.Credentials(name=name, usage=usage, mechs=mechanisms, store=store or None)


@contextmanager
def _errors() -> Iterator[None]:
    """The library's errors as GssError."""
    from gssapi.exceptions import GSSError

    try:
        yield
    except GSSError as error:
        raise GssError(_text(error)) from None


def _text(error: Exception) -> str:
    """What Kerberos says, without the codes and the general half sentence before it."""
    text = str(error)
    general, _, own = text.partition("Minor (")
    own = own.partition("): ")[2].strip()
    return own if own not in ("", "Unknown error") else general.partition("): ")[2].strip(" ,") or text
