"""Words of Kafka's clients in other people's lines.

An application logs what its client threw at it by loggers of its own, which no rule can know. The
error that it quotes, in the line or in the trace below, is Kafka's own text again.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ANY", "quoted", "quotes"]

# What a rule names as its logger when it listens to whoever quotes an error.
ANY = "*"
# The Java client's exceptions, kafka-python's, and librdkafka's errors as bindings print them.
_QUOTED = (
    r"(?:org\.apache\.kafka\.(?:common\.errors|clients\.(?:consumer|producer))\.[A-Z]\w*"
    r"(?:Exception|Error)|kafka\.errors\.[A-Z]\w*|KafkaError\{code=)"
)
_FIRST = rf"(?P<quoted>{_QUOTED}[^\n]*)"
# Cheap to look for, and all of them hold one of the two.
_PROBE = "afka"


def quotes(texts: pa.Array, later: pa.Array) -> pa.Array:
    """Say of each record whether its first line or a later one quotes an error."""
    return pc.or_(_quotes(texts), _quotes(later))


def quoted(messages: pa.Array, later: pa.Array) -> pa.Array:
    """Give the first error that each record quotes, from its name to the end of the line."""
    first = pc.extract_regex(messages, _FIRST)
    below = pc.extract_regex(later, _FIRST)
    return pc.coalesce(_field(first), _field(below))


def _quotes(texts: pa.Array) -> pa.Array:
    likely = pc.fill_null(pc.match_substring(texts, _PROBE), fill_value=False)
    if not pc.any(likely).as_py():
        return likely
    found = pc.match_substring_regex(texts.filter(likely), _QUOTED)
    return pc.replace_with_mask(likely, likely, found)


def _field(found: pa.StructArray) -> pa.Array:
    return pc.struct_field(found, "quoted")
