"""The tokens of a client for OAUTHBEARER: by its configuration, or by a class of the user's.

How tokens are had and kept is :mod:`pkafka.security.bearer_tokens`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pkafka.clients.errors import AuthenticationError, ConnectError, Stage
from pkafka.clock import Clock
from pkafka.security.bearer_tokens import NoTokenError, TokenDeniedError, TokenSource, dated, fetcher
from pkafka.security.jaas import LoginModule
from pkafka.security.token_settings import (
    HANDLER_KEY,
    SERVER_HANDLER,
    UNSECURED_HANDLER,
    Refreshing,
    Token,
    TokenSettings,
)

if TYPE_CHECKING:
    from pkafka.clients.config.security import SecurityOptions


def token_source(config: "SecurityOptions", module: LoginModule, clock: Clock) -> TokenSource:
    """What gets tokens as the configuration says; it raises AuthenticationError and ConnectError.

    Raises:
        ConfigError: it does not say how, or says it wrongly.
    """
    refreshing = Refreshing(
        config.sasl_login_refresh_window_factor,
        config.sasl_login_refresh_window_jitter,
        config.sasl_login_refresh_buffer_seconds * 1_000,
        config.sasl_login_refresh_min_period_seconds * 1_000,
    )
    return TokenSource(_fetcher(config, module, refreshing, clock), refreshing, clock)


def _fetcher(
    config: "SecurityOptions", module: LoginModule, refreshing: Refreshing, clock: Clock
) -> Callable[[], Token]:
    handler = config.sasl_login_callback_handler_class
    simple = handler.rpartition(".")[2] if isinstance(handler, str) else ""
    if handler is not None and simple not in (SERVER_HANDLER, UNSECURED_HANDLER):
        return _from_object(handler, clock)
    settings = TokenSettings(
        options=module.options,
        url=config.sasl_oauthbearer_token_endpoint_url,
        handler=simple,
        refreshing=refreshing,
        user_claim=config.sasl_oauthbearer_sub_claim_name,
        connect_timeout_ms=config.sasl_login_connect_timeout_ms,
        read_timeout_ms=config.sasl_login_read_timeout_ms,
        is_url_encoded=config.sasl_oauthbearer_header_urlencode,
    )
    return _as_client(fetcher(settings, clock))


def _from_object(handler: object, clock: Clock) -> Callable[[], Token]:
    from pkafka.clients.plugins import load

    made = load(HANDLER_KEY, handler, methods=("token",))

    def fetch() -> Token:
        try:
            text = str(made.token())
        except Exception as error:
            problem = f"{type(made).__name__} gave no token: {error}"
            raise TokenDeniedError(problem) from error
        return dated(text, None, clock.now_ms())

    return _as_client(fetch)


def _as_client(fetch: Callable[[], Token]) -> Callable[[], Token]:
    def fetch_as_client() -> Token:
        try:
            return fetch()
        except NoTokenError as error:
            kind = AuthenticationError if isinstance(error, TokenDeniedError) else ConnectError
            raise kind(Stage.AUTHENTICATE, error.host, f"login: {error.message}", hint=error.hint) from error

    return fetch_as_client
