"""JSON Web Tokens as a client sees them."""

import pytest

from pkafka.security.jwt import JwtError, claims, unsecured


def test_the_example_of_rfc_7519() -> None:
    token = (
        "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
        "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
    )
    assert claims(token) == {"iss": "joe", "exp": 1300819380, "http://example.com/is_root": True}


def test_an_unsecured_token_says_what_it_was_given() -> None:
    said = {"sub": "alicé", "exp": 12.5, "scope": ["a", "b"]}
    token = unsecured(said)
    assert token.startswith("eyJhbGciOiJub25lIn0.")
    assert token.endswith(".")
    assert claims(token) == said


@pytest.mark.parametrize("token", ["", "SECRET", "a.SECRET!.c", "a.W10.c", "a.b.c.d"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(JwtError) as caught:
        claims(token)
    assert "SECRET" not in str(caught.value)
