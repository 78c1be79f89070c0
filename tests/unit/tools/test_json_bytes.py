"""Bytes as JSON come back as they were."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pkafka.tools.json_bytes import bytes_of, value_of


@given(data=st.none() | st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
@example(data=b'{"base64":"AA=="}')
@example(data=b"\xed\xa0\x80")
def test_bytes_come_back(data: bytes | None) -> None:
    assert bytes_of(json.loads(json.dumps(value_of(data)))) == data


@pytest.mark.parametrize("value", [1, True, [], {}, {"base64": 1}, {"base64": "A"}, {"base64": "ä==="}])
def test_what_is_no_form_of_bytes_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"base64|expected|ASCII|padding|character"):
        bytes_of(value)
