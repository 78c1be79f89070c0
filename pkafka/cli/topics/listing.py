"""pk-topics --list."""

from typing import TYPE_CHECKING

from pkafka.cli.kit.output import View
from pkafka.cli.topics.flags import Flags
from pkafka.cli.topics.names import matching
from pkafka.model import topic_id_text

if TYPE_CHECKING:
    from pkafka.clients.admin.topics import TopicsClient


def listed(admin: "TopicsClient", flags: Flags) -> View:
    """The topics by name."""
    listings = {each.name: each for each in admin.list_topics()}
    names = matching(listings, flags.topic, exclude_internal=flags.exclude_internal, exact=flags.exact)
    rows = [
        {
            "name": name,
            "id": topic_id_text(listings[name].topic_id),
            "internal": listings[name].is_internal,
        }
        for name in names
    ]
    return View("topics", names or [""], rows)
