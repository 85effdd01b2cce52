"""Writes what is generated from the rules: pages in docs/, and the JSON Schemas in rules/schema/.

The pages say what Kafka logs and what it means, and what each detector needs and its limits. The
same rules give the same bytes, so that a test can check that the pages are up to date. The schemas,
by which editors help to write rules, are written by hand but for the lists of facts and kinds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from forensics.detection.registry import all_detectors
from forensics.detection.runner import Detector
from forensics.detection.thresholds import SUPPRESS, load_limits
from forensics.events.rules import Kind, Rule
from forensics.lib.log_templates import rewrite_template
from forensics.lib.text_safety import md_anchor, md_block, md_code, md_table, md_text
from forensics.lib.yaml_with_lines import rules_folder
from forensics.rule_tools.rule_text import (
    RESTATES_MEANINGS,
    best_example,
    describe_items,
    event_kinds,
    fact_sources,
    kind_description,
    newest_version,
    rule_family,
    rule_file,
    rule_versions,
    type_name,
    version_phrase,
)
from forensics.schemas import FACTS, TABLES, describe

_HEAD = """\
# Detectors

Each looks at the rebuilt past and says what it found, with the lines that say so. `findings.json`
keeps every detector's answer under `detectors`: `fired`, `quiet`, or `not_evaluable` with the
reason. A detector that was quiet names the holes in the logs that it could not see into.

Levels and thresholds stand in `rules/limits.yaml`; [a pack](packs.md) may lay its own over them,
and may bring [detectors of its own](own-detectors.md). Times are in seconds.
"""
_COMMENT = re.compile(r"^  (?P<key>[a-z_]+):[^#]*#\s*(?P<why>.*)$")


def render_detector_docs() -> str:
    """Render the page."""
    limits, reasons = load_limits(), _read_reasons()
    return _HEAD + "".join(
        _section(one, limits.get(one.name, {}), reasons.get(one.name, {}))
        for one in all_detectors()
    )


def _section(detector: Detector, limits: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    needs = detector.requirements
    text = f"\n## {detector.name}\n\n{detector.about}\n\nNeeds a {needs.description}.\n"
    if needs.events:
        text += f"Runs only where the logs hold events of {', '.join(needs.events)}.\n"
    rows = [
        f"| `{key}` | {value} | {reasons.get(key, '').replace('|', '&#124;')} |\n"
        for key, value in limits.items()
        if key != SUPPRESS
    ]
    head = "\n| limit | value | why |\n| --- | --- | --- |\n" if rows else ""
    return text + head + "".join(rows)


def _read_reasons() -> Mapping[str, Mapping[str, str]]:
    """Read the comments of limits.yaml by detector and limit: YAML itself forgets them."""
    reasons: dict[str, dict[str, str]] = {}
    detector = ""
    for line in (rules_folder() / "limits.yaml").read_text("utf-8").splitlines():
        if line and not line[0].isspace() and line.endswith(":"):
            detector = line[:-1]
        elif match := _COMMENT.match(line):
            reasons.setdefault(detector, {})[match["key"]] = match["why"]
    return reasons


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
    return {"description": describe(field), **kind}


# The first line of every page: it tells people not to edit it, and us which pages are ours.
GENERATED_MARK = "<!-- Written by `make docs` from rules/; what is changed here is lost. -->"
_RULES = "../../rules/events"

_READING = """\
Each rule says of one kind of log line what it means. Of each rule stand here:

- what it looks like, in all its wordings, and which versions write it so. `<name>` is a value that
  is read, `<number>` and `<list>` are values that are not kept, and `…` is any text. "since 2.1"
  means that version {newest}, the newest that the rules know, still writes it; librdkafka and other
  clients count their own versions;
- what it means, and what it does not mean;
- the facts it gives: columns of the [table of events](../tables.md#events);
- a line of a log.

A rule of the kind `routine` knows lines that tell nothing; they are known so that what nobody knows
stands out. `kafka-forensics rules show ID` tells all of one rule on a terminal."""

_KINDS = """\
What can have happened: the values of `kind` in the [table of events](../tables.md#events). Those
marked as context are many, and nothing is built on them: they are kept only with
`postmortem --context`."""

_TABLES = """\
Each table of an output folder is a folder of Parquet files, `OUT/tables/NAME`, and nothing else
lies in it: DuckDB, Polars, pandas and Spark read it as it is. The meaning of a column
stands in the file, too, as metadata of the Arrow schema (`description`). Times are in UTC; null is
what the logs do not tell.

```python
duckdb.sql("SELECT * FROM 'out/tables/leadership/*.parquet' WHERE election = 'unclean'")
polars.scan_parquet("out/tables/leadership")
pandas.read_parquet("out/tables/leadership")
spark.read.parquet("out/tables/leadership")
```

`kafka-forensics export out --format sql -o views.sql` writes a view for each table, with these
meanings as comments; `duckdb -init views.sql` opens them, and Superset and Metabase do by DuckDB.

No column says of which run or cluster a row is: the same logs give the same bytes, wherever and
whenever they are read. Name the folders of several runs so, and every reader makes columns of them:

```sh
kafka-forensics postmortem logs.tar.gz -o runs/cluster=orders/run=2026-11-18
duckdb -c "SELECT cluster, run, topic FROM 'runs/*/*/tables/outages/*.parquet'"
```"""


def generate_pages(rules: Iterable[Rule], kinds: Mapping[str, Kind]) -> dict[str, str]:
    """Write all pages; the keys are their places below docs/."""
    ordered = sorted(rules, key=lambda rule: rule.id)
    families: dict[str, list[Rule]] = {}
    for rule in ordered:
        families.setdefault(rule_family(rule), []).append(rule)
    newest = newest_version(ordered)
    pages = {
        "tables.md": _tables_page(),
        "rules/README.md": _index_page(families, _rules_by_kind(ordered, kinds), newest),
        "rules/kinds.md": _kinds_page(kinds, _rules_by_kind(ordered, kinds)),
    }
    for name, members in sorted(families.items()):
        pages[f"rules/{name}.md"] = _family_page(name, members, newest)
    return pages


def readable_template(source: str) -> str:
    """Write a template for people.

    >>> readable_template("[Partition {:tp} broker={broker:int}] ISR is {:ints} at {:int}{}")
    '[Partition <topic>-<partition> broker=<broker>] ISR is <list> at <number>…'
    """
    return rewrite_template(source, _readable_part)


def _readable_part(name: str, kind: str) -> str:
    if kind == "tp":
        return "<topic>-<partition>"
    unnamed = {"int": "<number>", "digit": "<number>", "ints": "<list>", "spaces": " "}
    return f"<{name}>" if name else unnamed.get(kind, "…")


def _rules_by_kind(rules: Iterable[Rule], kinds: Mapping[str, Kind]) -> dict[str, list[Rule]]:
    """Return for each kind the rules that give it, also beside their main event."""
    by_kind: dict[str, list[Rule]] = {kind: [] for kind in sorted(kinds)}
    for rule in rules:
        for kind in event_kinds(rule):
            by_kind.setdefault(kind, []).append(rule)
    return by_kind


def _index_page(
    families: Mapping[str, Sequence[Rule]], by_kind: Mapping[str, Sequence[Rule]], newest: str
) -> str:
    count = sum(map(len, families.values()))
    wordings = sum(len(rule.wordings) for members in families.values() for rule in members)
    family_rows = [
        (
            f"[{md_text(name)}]({name}.md)",
            str(len(members)),
            ", ".join(_kind_link(kind) for kind in sorted({rule.kind for rule in members})),
        )
        for name, members in sorted(families.items())
    ]
    kind_rows = [
        (_kind_link(kind), ", ".join(map(_rule_link, members)))
        for kind, members in sorted(by_kind.items())
        if members
    ]
    return _page(
        "# The rules",
        f"{count} rules, {wordings} wordings.",
        _READING.format(newest=newest),
        "## By family",
        _table(("family", "rules", "kinds of events"), family_rows),
        "## By kind",
        _table(("kind of event", "told by"), kind_rows),
    )


def _kinds_page(kinds: Mapping[str, Kind], by_kind: Mapping[str, Sequence[Rule]]) -> str:
    rows = (
        (
            md_anchor(kind) + md_code(kind),
            md_text(kind_description(kinds[kind])) if kind in kinds else "",
            ", ".join(map(_rule_link, members)) or "no rule yet",
        )
        for kind, members in sorted(by_kind.items())
    )
    return _page("# Kinds of events", _KINDS, _table(("kind", "meaning", "told by"), rows))


def _tables_page() -> str:
    blocks = []
    for name, schema in TABLES.items():
        told = describe(schema)
        rows = [
            (md_code(field.name), md_text(type_name(field.type)), md_text(describe(field)))
            for field in schema
        ]
        told = f"{told[0].upper()}{told[1:]}."
        blocks += [
            md_anchor(name),
            f"## {name}",
            md_text(told),
            _table(("column", "type", "meaning"), rows),
        ]
    return _page("# The tables", _TABLES, *blocks)


def _family_page(name: str, members: Sequence[Rule], newest: str) -> str:
    rows = []
    for rule in members:
        versions = version_phrase(rule_versions(rule), newest)
        rows.append((f"[{md_text(rule.id)}](#{rule.id})", _kind_link(rule.kind), versions))
    contents = _table(("rule", "kind of event", "versions"), rows)
    sections = (block for rule in members for block in _rule_blocks(rule, newest))
    return _page(f"# Rules: {md_text(name)}", "[All rules](README.md)", contents, *sections)


def _rule_blocks(rule: Rule, newest: str) -> Iterator[str]:
    loggers = ", ".join(map(md_code, rule.loggers))
    file = f"{_RULES}/{rule_file(rule)}"
    yield md_anchor(rule.id)
    yield f"## {md_text(rule.id)}"
    versions = version_phrase(rule_versions(rule), newest)
    yield f"Kind {_kind_link(rule.kind)}, logger {loggers}, {versions}; [the rule]({file})."
    if rule.description:
        yield md_text(rule.description)
    if rule.caveats:
        yield f"**Beware:** {md_text(rule.caveats)}"
    for wording in rule.wordings:
        versions = version_phrase(wording.versions, newest)
        yield f"{versions[0].upper()}{versions[1:]}:"
        yield md_block([readable_template(wording.template.source)])
        if wording.each:
            yield md_text(f"One event for {describe_items(wording)}:")
            yield md_block([readable_template(wording.each.template.source)])
    for restates in dict.fromkeys(wording.restates for wording in rule.wordings):
        if restates in RESTATES_MEANINGS:
            yield md_text(RESTATES_MEANINGS[str(restates)])
    line, expected = best_example(rule)
    rows = [
        (
            md_code(name),
            md_text("; ".join([describe(FACTS.field(name)), *sources])),
            md_code(json.dumps(expected[name], ensure_ascii=False)) if name in expected else "",
        )
        for name, sources in fact_sources(rule).items()
    ]
    if rows:
        yield _table(("fact", "meaning", "in the example"), rows)
    if line:
        yield from ("Example:", md_block(line.split("\n")))


def _kind_link(kind: str) -> str:
    return f"[{md_code(kind)}](kinds.md#{kind})"


def _rule_link(rule: Rule) -> str:
    return f"[{md_text(rule.id)}]({rule_family(rule)}.md#{rule.id})"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(md_table(header, rows))


def _page(*blocks: str) -> str:
    return "\n\n".join([GENERATED_MARK, *blocks]) + "\n"
