"""Log layouts: where a line of a log has its time, level, logger and message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics.errors import Problem, RuleError
from forensics.ingest.record_starts import PADDING, Signature
from forensics.lib.log_templates import Template, TemplateError, compile_template
from forensics.lib.yaml_with_lines import FileText, line_of, load_yaml, rule_files
from forensics.parsing.timestamps import TimeFormat, TimeFormatError

# Before the time only fixed text and single digits may stand, so that it has a fixed place.
_BEFORE_TIME = re.compile(r"\{\w*:digit\}")
_KEYS = {"id", "about", "log4j", "match", "time", "logger", "examples", "refuses"}
# What lines of a layout that was found, or given as a pattern, are rewritten to; and objects whose
# logger is no class.
OF_FOUND_LAYOUTS = ("record", "record-utc", "record-above")
_NAMES = {"time", "level", "logger", "message", "client"}


@dataclass(frozen=True)
class Layout:
    """One layout; `origin` is the file that defines it.

    If text follows the message, a message of several lines is parsed in two steps: its first line
    by `opening`, and what follows the message by `closing`.
    """

    id: str
    template: Template
    opening: Template | None
    closing: str | None
    time: TimeFormat
    time_offset: int
    signature: Signature
    logger: str | None
    examples: tuple[Mapping[str, Any], ...]
    refuses: tuple[str, ...]
    origin: Problem

    @property
    def level_offset(self) -> int | None:
        """The offset of the level, if it has a fixed place after the time."""
        between, found, _ = self.template.source.partition("{time:time}")[2].partition("{level:")
        fixed = found and "{" not in between and not self.time.zoned
        return self.time_offset + len(self.time.shape) + len(between) if fixed else None

    @property
    def is_object(self) -> bool:
        """Whether its lines are JSON objects, whose keys say what is what."""
        return self.time.shape.startswith("{")

    @property
    def ends_with_logger(self) -> bool:
        """Whether a first line ends with the logger in parentheses, which the prefilter uses."""
        return self.template.source.endswith(("({logger:logger})", "({logger:logger}{:place})"))


def load_layouts(paths: Sequence[Path | FileText] | None = None) -> tuple[Layout, ...]:
    """Read the layouts, longest signature first; one error names all problems."""
    layouts, problems = [], []
    for path in rule_files("layouts") if paths is None else paths:
        try:
            layouts.append(_layout(path, load_yaml(path)))
        except RuleError as error:
            problems += error.problems
        except (TemplateError, TimeFormatError) as error:
            problems.append(Problem(str(path), 1, str(error)))
    if problems:
        raise RuleError(problems)
    return sort_layouts(layouts)


def sort_layouts(layouts: Iterable[Layout]) -> tuple[Layout, ...]:
    """Sort the longest signature first: it tells more than a shorter one that fits, too."""
    return tuple(sorted(layouts, key=lambda layout: (-layout.signature.width, layout.id)))


def _layout(path: Path | FileText, node: Mapping[str, Any]) -> Layout:
    unknown = sorted(set(node) - _KEYS)
    given = {key for key, value in node.items() if value is not None}
    missing = sorted({"id", "match", "time", "examples"} - given)
    if unknown or missing:
        word = f"unknown key {unknown[0]!r}" if unknown else f"no {missing[0]!r}"
        line = line_of(node, unknown[0]) if unknown else 1
        raise RuleError([Problem(str(path), line, f"layout has {word}")])
    time = TimeFormat.parse(node["time"])
    template = compile_template(node["match"], {"time": time.pattern})
    if extra := set(template.fields) - _NAMES:
        says = f"a layout cannot capture {sorted(extra)}; it may capture {sorted(_NAMES)}"
        raise RuleError([Problem(str(path), line_of(node, "match"), says)])
    before, found, _ = node["match"].partition("{time:time}")
    before = _BEFORE_TIME.sub("\0", before)
    if not found or "{" in before or len(before) + len(time.shape) > PADDING:
        says = "'match' must hold {time:time}, with only fixed text and {:digit} before it"
        raise RuleError([Problem(str(path), line_of(node, "match"), says)])
    shape = before + time.shape.replace("d", "\0")
    opening, closing = _ends(node["match"], {"time": time.pattern})
    return Layout(
        id=str(node["id"]),
        template=template,
        opening=opening,
        closing=closing,
        time=time,
        time_offset=len(before),
        signature=Signature.of(shape, digits="\0"),
        logger=node.get("logger"),
        examples=tuple(node["examples"]),
        refuses=tuple(node.get("refuses") or ()),
        origin=Problem(str(path), 1, str(node["id"])),
    )


def _ends(match: str, types: dict[str, str]) -> tuple[Template | None, str | None]:
    front, message, after = match.partition("{message}")
    if not message or not after:
        return None, None
    # What collectors trim may be the blank at the begin of the last line.
    blank = "(?:(?m:^)| )" if after.startswith(" ") else ""
    closing = blank + compile_template(after.removeprefix(" ") if blank else after).body
    return (
        compile_template(front + message, types),
        rf"^(?P<more>(?s:.*?)){closing}[ \t\r]*(?:\n|$)",
    )
