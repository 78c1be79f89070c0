"""The configurations that docs/connectors.md shows."""

import re
from collections.abc import Mapping
from pathlib import Path

from pkafka.java.properties import parse_properties

_PAGE = Path(__file__).resolve().parent.parent / "docs" / "connectors.md"


def example(name: str, replaced: Mapping[str, str]) -> dict[str, str]:
    """The settings of the connector of that name, with what a test has in other places.

    Args:
        name: as the page has it; the connector gets another, if ``replaced`` says so.
        replaced: settings that the page shows too.
    """
    blocks = re.findall(r"^```properties\n(.*?)^```$", _PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (found,) = (each for each in map(parse_properties, blocks) if each["name"] == name)
    assert replaced.keys() <= found.keys() | {"name"}
    return {**found, **replaced}
