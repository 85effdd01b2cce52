"""Event rules: what one line of a log says, as YAML whose examples are its tests.

The kinds of events that rules may give stand in rules/kinds/.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics.errors import Problem, RuleError, duplicate_ids
from forensics.lib.log_templates import Template, TemplateError, compile_template
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml, rule_files
from forensics.schemas import FACTS

# The kind of known lines that tell nothing. Rules take them, so that unknown lines stand out.
ROUTINE = "routine"


@dataclass(frozen=True)
class Kind:
    """What events of a kind mean.

    Those that only give context are many, and nothing is built on them: they are read on demand.
    """

    description: str
    context: bool = False


@functools.cache
def load_kinds() -> Mapping[str, Kind]:
    """Return every shipped kind."""
    return {name: kind for path in rule_files("kinds") for name, kind in read_kinds(path)}


def read_kinds(path: Path | FileText) -> Iterator[tuple[str, Kind]]:
    """Read the kinds of one file: a sentence each, or `{means: .., context: true}`."""
    page = load_yaml(path)
    for name, value in page.items():
        if isinstance(value, str):
            yield name, Kind(value)
        elif isinstance(value, Mapping) and {"means"} <= set(value) <= {"means", "context"}:
            yield name, Kind(str(value["means"]), bool(value.get("context")))
        else:
            message = f"kind {name!r} must be a sentence, or {{means: .., context: true}}"
            raise RuleError([Problem(str(path), line_of(page, name), message)])


# The name by which `each` refers to the lines of a record after its first one.
MORE = "more"
# The loggers of client libraries other than Java's: applications hand their lines to loggers of
# their own, or to none.
LIBRARY_LOGGERS = frozenset(
    {"sarama", "go", "kafkajs", "aiokafka", "client", "client_async", "cluster", "conn"}
    | {"consumer", "coordinator", "fetcher", "group_coordinator", "sender"}
)
_RESTATES = (None, "fresh", "replay", "always")
# Where an example comes from; one without `seen` was built from the text in Kafka's source.
_SEEN = (None, "recorded", "published")


def find_wording_faults(wording: Wording) -> Iterator[str]:
    """Yield what is wrong with one wording, a sentence each."""
    yield from _find_name_faults(wording)
    yield from _find_item_faults(wording)
    if not wording.versions:
        yield "'versions' is empty; write the first and the last"
    if wording.restates not in _RESTATES:
        yield f"'restates' is {wording.restates!r}; it may be fresh, replay or always"
    for seen in (example.provenance for example in wording.examples):
        if seen not in _SEEN:
            yield f"'seen' is {seen!r}; it may be recorded or published, or be left out"


def _find_name_faults(wording: Wording) -> Iterator[str]:
    known = set(FACTS.names)
    also = [name for extra in wording.also for name in extra.facts]
    for name in (*wording.settings, *also):
        if name not in known:
            yield f"there is no fact {name!r}; the facts are {', '.join(FACTS.names)}"
    sources = [value for extra in wording.also for value in extra.facts.values()]
    wanted = {str(v)[1:-1] for v in (*wording.settings.values(), *sources) if _is_reference(v)}
    for name in sorted(wanted - set(wording.captured_names)):
        yield f"'match' captures no {name!r}"
    if wording.each:
        wanted.add(wording.each.of)
    for name in wording.captured_names:
        if name not in known and name not in wanted:
            yield f"{name!r} is captured for nothing; it is no fact: write {{:type}} instead"


def _find_item_faults(wording: Wording) -> Iterator[str]:
    if wording.each is None:
        return
    if wording.each.of not in (*wording.template.fields, MORE):
        yield f"'each' is of {wording.each.of!r}, which 'match' does not capture"
    for name in {*wording.each.only} - {*wording.each.template.fields}:
        yield f"'only' names {name!r}, which the match of 'each' does not capture"
    for name in {*wording.each.template.fields} & {*wording.template.fields}:
        yield f"{name!r} is captured by 'match' and by the match of 'each'"


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and value.startswith("{") and value.endswith("}")


_RULE_KEYS = set(
    "id kind logger means beware set restates loud also wordings refuses".split()  # noqa: SIM905
)
_WORDING_KEYS = {"versions", "match", "each", "examples", "refuses", "restates", "set", "also"}
_EACH_KEYS = {"of", "by", "match", "only"}
_EXAMPLE_KEYS = {"line", "gives", "seen"}


@dataclass(frozen=True)
class Example:
    """A whole log line and the facts it must give, of its first event or of each of them."""

    line: str
    expected: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    provenance: str | None
    line_number: int


@dataclass(frozen=True)
class ExtraEvent:
    """A second event of the same line, with facts taken from other names."""

    kind: str
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class ListItems:
    """A list inside a line, such as a set of partitions: each item becomes an event."""

    of: str
    by: str
    template: Template
    only: Mapping[str, Sequence[str]]

    @property
    def lists_settings(self) -> bool:
        """Whether each item is a setting that stands in a line of its own."""
        return self.of == MORE and "setting" in self.template.fields


@dataclass(frozen=True)
class Wording:
    """One wording of a rule, with the versions that write it so."""

    versions: tuple[str, ...]
    template: Template
    each: ListItems | None
    settings: Mapping[str, Any]
    restates: str | None
    also: tuple[ExtraEvent, ...]
    examples: tuple[Example, ...]
    must_not_match: tuple[str, ...]
    line_number: int

    @property
    def captured_names(self) -> tuple[str, ...]:
        """The names that the match and the items capture."""
        return (*self.template.fields, *(self.each.template.fields if self.each else ()))


@dataclass(frozen=True)
class Rule:
    """One fact that Kafka logs, in all its wordings."""

    id: str
    kind: str
    loggers: tuple[str, ...]
    description: str
    caveats: str
    wordings: tuple[Wording, ...]
    path: str
    context: bool = False
    # True for lines that are always warnings or worse: the prefilter skips lower levels.
    warn_or_worse_only: bool = False

    @property
    def is_of_library(self) -> bool:
        """True if applications hand its lines to loggers of their own."""
        return not LIBRARY_LOGGERS.isdisjoint(self.loggers)

    @property
    def is_routine(self) -> bool:
        """True if its lines are known and tell nothing: no scan looks for them."""
        return self.kind == ROUTINE


def load_rules(
    paths: Sequence[Path | FileText] | None = None, known: Mapping[str, Kind] | None = None
) -> tuple[Rule, ...]:
    """Read all rules, or raise one error that holds every problem with file and line.

    `known` are the allowed kinds of events; the default is the shipped ones.
    """
    rules: list[Rule] = []
    problems: list[Problem] = []
    for path in rule_files("events") if paths is None else paths:
        try:
            rule = _rule(path, load_yaml(path), problems, load_kinds() if known is None else known)
        except RuleError as error:
            problems += error.problems
            continue
        except (TypeError, AttributeError) as error:
            problems.append(Problem(str(path), 1, f"not of the shape of a rule: {error}"))
            continue
        rules.append(rule)
    problems += duplicate_ids((rule.id, rule.path) for rule in rules)
    if problems:
        raise RuleError(problems)
    return tuple(rules)


def _rule(
    path: Path | FileText,
    node: Mapping[str, Any],
    problems: list[Problem],
    known: Mapping[str, Kind],
) -> Rule:
    _check_keys(path, node, _RULE_KEYS, {"id", "kind", "logger", "wordings"})
    loggers = node["logger"]
    kind = known.get(node["kind"])
    if kind is None and node["kind"] != ROUTINE:
        message = f"there is no kind {node['kind']!r}; rules/kinds/ lists them"
        problems.append(Problem(str(path), line_of(node, "kind"), message))
    wordings = [
        wording for part in node["wordings"] for wording in _wordings(path, part, node, problems)
    ]
    return Rule(
        id=str(node["id"]),
        kind=str(node["kind"]),
        loggers=(loggers,) if isinstance(loggers, str) else tuple(loggers),
        description=_join_lines(node.get("means")),
        caveats=_join_lines(node.get("beware")),
        wordings=tuple(wordings),
        path=str(path),
        context=kind is not None and kind.context,
        warn_or_worse_only=bool(node.get("loud", False)),
    )


def _wordings(
    path: Path | FileText, part: Mapping[str, Any], rule: Mapping[str, Any], problems: list[Problem]
) -> Iterator[Wording]:
    try:
        _check_keys(path, part, _WORDING_KEYS, {"versions", "match"})
        at = line_of(part, "match")
        wording = Wording(
            versions=tuple(str(version) for version in part["versions"]),
            template=compile_template(part["match"]),
            each=_each(path, part["each"]) if "each" in part else None,
            settings=dict(rule.get("set", {})) | dict(part.get("set", {})),
            restates=part.get("restates", rule.get("restates")),
            also=tuple(
                ExtraEvent(str(extra["kind"]), {k: v for k, v in extra.items() if k != "kind"})
                for extra in part.get("also", rule.get("also", ()))
            ),
            examples=tuple(_example(path, one) for one in part.get("examples", ())),
            must_not_match=(*part.get("refuses", ()), *rule.get("refuses", ())),
            line_number=at,
        )
        problems += [Problem(str(path), at, message) for message in find_wording_faults(wording)]
        yield wording
    except RuleError as error:
        problems += error.problems
    except TemplateError as error:
        problems.append(Problem(str(path), line_of(part, "match"), str(error)))
    except (KeyError, TypeError) as error:
        problems.append(Problem(str(path), line_of(part), f"not understood: {error!r}"))


def _each(path: Path | FileText, node: Mapping[str, Any]) -> ListItems:
    _check_keys(path, node, _EACH_KEYS, {"of", "match"})
    only = {name: tuple(map(str, values)) for name, values in node.get("only", {}).items()}
    return ListItems(
        str(node["of"]), str(node.get("by", ",")), compile_template(node["match"]), only
    )


def _example(path: Path | FileText, node: Mapping[str, Any]) -> Example:
    _check_keys(path, node, _EXAMPLE_KEYS, {"line"})
    at = line_of(node, "line")
    return Example(str(node["line"]), node.get("gives", {}), node.get("seen"), at)


def _join_lines(text: object) -> str:
    return " ".join(str(text or "").split())


def _check_keys(
    path: Path | FileText, node: Mapping[str, Any], known: set[str], needed: set[str]
) -> None:
    problems = [
        Problem(str(path), line_of(node, key), f"unknown key {key!r}; known: {sorted(known)}")
        for key in node
        if key not in known
    ]
    problems += [
        Problem(str(path), line_of(node), f"there is no {key!r}")
        for key in sorted(needed - set(node))
    ]
    if problems:
        raise RuleError(problems)
