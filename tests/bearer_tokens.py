"""Tokens for OAUTHBEARER, right and wrong, and a server that publishes the keys of those that are signed."""

import base64
import contextlib
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE: Final = "pkafka-tests"
ISSUER: Final = "https://issuer.example"
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def part(value: object) -> str:
    """A part of a token."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def claims(**more: Any) -> dict[str, Any]:
    """What a good token says; None leaves a claim out."""
    now_s = int(time.time())
    said = {"sub": "carol", "iat": now_s, "exp": now_s + 600, "aud": AUDIENCE, "iss": ISSUER, "scope": "a b"}
    return {name: value for name, value in {**said, **more}.items() if value is not None}


def unsigned(said: Mapping[str, Any] | None = None, **header: Any) -> str:
    """A token without a signature."""
    return f"{part({'alg': 'none', **header})}.{part(claims() if said is None else said)}."


class Keys:
    """A key set: two RSA keys, one on a curve."""

    def __init__(self) -> None:
        self.rsa: PrivateKey = rsa.generate_private_key(65537, 2048)
        self.curve: PrivateKey = ec.generate_private_key(ec.SECP256R1())
        self.other: PrivateKey = rsa.generate_private_key(65537, 2048)
        self.published: dict[str, PrivateKey] = {"rsa": self.rsa, "curve": self.curve}

    def document(self) -> str:
        """The key set, with keys in it that may not be used for tokens."""
        rows = [_public(name, key) for name, key in self.published.items()]
        secret = part(b"x" * 32)
        rows += [
            {"kty": "oct", "kid": "secret", "k": secret},
            {"kty": "RSA", "kid": "broken"},
            {"kid": "odd"},
        ]
        return json.dumps({"keys": rows})

    def signed(
        self,
        said: Mapping[str, Any] | None = None,
        *,
        key: str = "rsa",
        kid: str | None = None,
        alg: str = "RS256",
    ) -> str:
        """A token that one of the keys has signed."""
        headers = {"kid": key if kid is None else kid}
        if not headers["kid"]:
            headers = {}
        signer = {"rsa": self.rsa, "curve": self.curve, "other": self.other}[key]
        return jwt.encode(claims() if said is None else dict(said), signer, algorithm=alg, headers=headers)

    def confused(self) -> str:
        """A token that is signed with the public key as if it were a secret (CVE-2015-9235)."""
        public = self.rsa.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        text = f"{part({'alg': 'HS256', 'kid': 'rsa'})}.{part(claims())}"
        return f"{text}.{part(hmac.digest(public, text.encode(), hashlib.sha256))}"

    def by_secret(self) -> str:
        """A token that is signed with the secret that the key set shows to all."""
        return jwt.encode(claims(), b"x" * 32, algorithm="HS256", headers={"kid": "secret"})


def _public(name: str, key: PrivateKey) -> dict[str, Any]:
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        row = json.loads(RSAAlgorithm.to_jwk(public))
    else:
        assert isinstance(public, ec.EllipticCurvePublicKey)
        row = json.loads(ECAlgorithm.to_jwk(public))
    return {**row, "kid": name, "use": "sig"}


class KeyServer:
    """Answers with a document, and counts how often."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.status = 200
        self.asked = 0
        self.url = ""


@contextlib.contextmanager
def key_server(keys: Keys) -> Iterator[KeyServer]:
    """A server of a key set, on loopback."""
    answering = KeyServer(keys)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answering.asked += 1
            data = answering.keys.document().encode()
            self.send_response(answering.status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_said: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    answering.url = f"http://127.0.0.1:{server.server_address[1]}/keys"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield answering
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def unsigned_tokens() -> dict[str, str]:
    """Tokens without a signature, by what is special about them."""
    now_s = time.time()
    cases: dict[str, Mapping[str, Any]] = {
        "good": claims(),
        "fractions of seconds": claims(iat=now_s, exp=now_s + 600.5),
        "no user": claims(sub=None),
        "a user of blanks": claims(sub="  "),
        "a user that is a number": claims(sub=5),
        "no end": claims(exp=None),
        "an end that is text": claims(exp="soon"),
        "an end that is true": claims(exp=True),
        "over": claims(iat=1, exp=now_s - 1),
        "of the future": claims(iat=now_s + 600, exp=now_s + 1_200),
        "not issued": claims(iat=None),
        "issued as text": claims(iat="now"),
        "over before it was issued": claims(iat=now_s + 0.5, exp=now_s + 0.4),
        "no scope": claims(scope=None),
        "scope as a list": claims(scope=["a", "b"]),
        "scope as a number": claims(scope=5),
        "a part of the scope": claims(scope="a"),
        "an empty object": {},
    }
    texts = {name: unsigned(said) for name, said in cases.items()}
    good = unsigned()
    return {
        **texts,
        "two parts": good[:-1],
        "one part": good.partition(".")[0],
        "four parts": good + ".x",
        "an empty part": f".{good}",
        "dots": "..",
        "with a signature": good + "AAAA",
        "said to be signed": unsigned(alg="RS256"),
        "claims that are a list": f"{part({'alg': 'none'})}.{part([1])}.",
        "claims that are no JSON": f"{part({'alg': 'none'})}.{part(b'x')}.",
        "no base64": "a.b.c",
    }


def signed_tokens(keys: Keys) -> dict[str, str]:
    """Tokens that are signed, or seem to be, by what is special about them."""
    now_s = time.time()
    cases: dict[str, Mapping[str, Any]] = {
        "good": claims(),
        "no user": claims(sub=None),
        "a user of blanks": claims(sub="  "),
        "a user between blanks": claims(sub=" carol "),
        "no end": claims(exp=None),
        "over": claims(exp=now_s - 60),
        "over, but hardly": claims(iat=now_s - 100, exp=now_s - 5),
        "over before it was issued": claims(exp=now_s - 5),
        "over before it counts": claims(exp=now_s + 5, nbf=now_s + 10),
        "not issued": claims(iat=None),
        "of the future": claims(iat=now_s + 300, exp=now_s + 600),
        "not yet": claims(nbf=now_s + 300),
        "hardly not yet": claims(nbf=now_s + 5),
        "no audience": claims(aud=None),
        "another audience": claims(aud="others"),
        "several audiences": claims(aud=["others", AUDIENCE]),
        "no issuer": claims(iss=None),
        "another issuer": claims(iss="https://other.example"),
        "no scope": claims(scope=None),
        "scope as a list": claims(scope=["a", "b"]),
        "scope as a list with one twice": claims(scope=["a", "a"]),
        "an empty scope": claims(scope=""),
    }
    texts = {name: keys.signed(said) for name, said in cases.items()}
    good = keys.signed()
    return {
        **texts,
        "on a curve": keys.signed(key="curve", alg="ES256"),
        "by another hash": keys.signed(alg="RS512"),
        "by PSS": keys.signed(alg="PS256"),
        "by a key that is not there": keys.signed(key="other"),
        "by another key under a known name": keys.signed(key="other", kid="rsa"),
        "by a key without its name": keys.signed(kid=""),
        "by the name of the other kind": keys.signed(kid="curve"),
        "not signed": unsigned(),
        "not signed, by a known name": unsigned(kid="rsa"),
        "changed": f"{good.split('.')[0]}.{part(claims(sub='admin'))}.{good.split('.')[2]}",
        "cut short": good[:-20],
        "by the public key as a secret": keys.confused(),
        "no token": "abc",
        "no base64": "a.b.c",
    }
