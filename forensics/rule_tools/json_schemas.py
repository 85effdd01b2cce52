"""The JSON Schemas in rules/schema/, by which editors help to write rules.

They are written by hand, but for the lists of facts and kinds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from forensics.events.rules import Kind
from forensics.lib.yaml_with_lines import rules_folder
from forensics.rule_tools.rule_text import COLUMN_MEANINGS, kind_description
from forensics.schemas import FACTS

# A pack may have kinds of its own.
_OTHER = {"type": "string", "pattern": "^[a-z][a-z0-9]*(_[a-z0-9]+)*$"}


def generate_schemas(kinds: Mapping[str, Kind]) -> dict[str, str]:
    """Return every schema by the name of its file, with today's facts and kinds."""
    found = {
        path.name: json.loads(path.read_text("utf-8"))
        for path in sorted((rules_folder() / "schema").glob("*.json"))
    }
    parts = found["event-rule.json"]["$defs"]
    parts["fact"]["enum"] = FACTS.names
    parts["facts"]["properties"] = {field.name: _fact(field) for field in FACTS}
    parts["kind"]["anyOf"] = [
        # This fits all kinds; the others are for an editor to offer.
        _OTHER,
        *({"const": name, "description": kind_description(kinds[name])} for name in sorted(kinds)),
    ]
    return {
        name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in found.items()
    }


def _fact(field: pa.Field) -> dict[str, Any]:
    if pa.types.is_list(field.type):
        kind: dict[str, Any] = {"type": ["array", "null"], "items": {"type": "integer"}}
    else:
        kind = {"type": ["integer" if pa.types.is_integer(field.type) else "string", "null"]}
    return {"description": COLUMN_MEANINGS[field.name], **kind}
