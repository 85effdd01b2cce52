"""The pages that are written from the rules: complete, up to date, and safe from what logs hold."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from forensics.events.rules import Kind, Rule, load_rules
from forensics.lib.text_safety import md_block, md_cell, md_code, md_table, md_text
from forensics.rule_tools.generate_docs import GENERATED_MARK, generate_pages, readable_template
from forensics.rule_tools.rule_text import all_kinds, newest_version, rule_family
from forensics.schemas import TABLES, describe
from tests.rule_tools.test_check import RULE

DOCS = Path(__file__).parents[2] / "docs"
HOSTILE = "a|b <c> *d* _e_ `f` ``g`` [h](i) \\ \x1b[31m &amp; $j$"


@pytest.fixture(scope="session")
def written(rules: tuple[Rule, ...]) -> dict[str, str]:
    return generate_pages(rules, all_kinds())


@pytest.fixture
def rule(tmp_path: Path) -> Rule:
    (tmp_path / "isr").mkdir()
    path = tmp_path / "isr" / "isr-updated.yaml"
    path.write_text(RULE)
    return load_rules([path])[0]


def test_the_pages_are_up_to_date(written: dict[str, str]) -> None:
    there = {path.relative_to(DOCS).as_posix() for path in (DOCS / "rules").glob("*.md")}
    old = [
        name
        for name, text in written.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text("utf-8") != text
    ]
    left = sorted(there - set(written))

    assert (old, left) == ([], []), "docs/ is not what the rules say; run `make docs`"


def test_every_table_and_every_column_has_a_meaning() -> None:
    silent = [
        f"{name} {part.name if isinstance(part, pa.Field) else ''}"
        for name, schema in TABLES.items()
        for part in (schema, *schema)
        if not describe(part)
    ]

    assert [] == silent


def test_the_order_of_the_rules_does_not_matter(
    rules: tuple[Rule, ...], written: dict[str, str]
) -> None:
    assert generate_pages(reversed(rules), all_kinds()) == written


def test_every_rule_and_every_kind_has_its_place(
    rules: tuple[Rule, ...], written: dict[str, str]
) -> None:
    for rule in rules:
        page = written[f"rules/{rule_family(rule)}.md"]
        assert page.count(f'<a id="{rule.id}"></a>') == 1
    for kind in all_kinds():
        assert written["rules/kinds.md"].count(f'<a id="{kind}"></a>') == 1


def test_every_link_leads_somewhere(written: dict[str, str]) -> None:
    places = {name: set(re.findall(r'<a id="([^"]+)">', text)) for name, text in written.items()}
    links = 0
    for name, text in written.items():
        for target in re.findall(r"(?<!\\)\]\(([^)]+)\)", re.sub(r"(?s)```.*?```", "", text)):
            file, _, place = target.partition("#")
            path = (DOCS / name).parent.joinpath(file).resolve() if file else DOCS / name
            links += 1
            if path.suffix == ".md":
                assert place in {"", *places[path.relative_to(DOCS).as_posix()]}, target
            else:
                assert path.exists(), target
    assert links > 500


def test_a_page_tells_everything_of_a_rule(rule: Rule) -> None:
    rule = replace(rule, description="The ISR is new.", caveats="Not the leader.")

    page = generate_pages([rule], {"partition_state": Kind("how a partition stood")})[
        "rules/isr.md"
    ]

    assert page.startswith(GENERATED_MARK)
    assert "\n## isr.updated\n" in page
    assert (
        "Kind [`partition_state`](kinds.md#partition_state), logger `Partition`, since 3.1; "
        "[the rule](../../rules/events/isr/isr-updated.yaml)."
    ) in page
    assert "\nThe ISR is new.\n" in page
    assert "\n**Beware:** Not the leader.\n" in page
    assert (
        "```text\n[Partition <topic>-<partition> broker=<broker>] "
        "ISR updated to <isr> and version <partition_epoch>\n```"
    ) in page
    assert '| `topic` | the topic | `"a-b"` |' in page
    assert f"```text\n{rule.wordings[0].examples[0].line}\n```" in page
    assert re.search(r"\| `leader` \| .*; the same as \\<broker\\> \| `1` \|", page)


def test_text_of_a_log_takes_no_effect_on_a_page(rule: Rule) -> None:
    wording = rule.wordings[0]
    example = replace(wording.examples[0], line=HOSTILE, expected={"topic": HOSTILE})
    wording = replace(wording, examples=(example,))
    rule = replace(rule, description=HOSTILE, caveats=HOSTILE, wordings=(wording,))

    page = generate_pages([rule], {"partition_state": Kind(HOSTILE)})["rules/isr.md"]

    shown = r"a\|b \<c\> \*d\* \_e\_ \`f\` \`\`g\`\` \[h\](i) \\ \<U+001B\>\[31m \&amp; \$j\$"
    assert f"\n{shown}\n" in page
    assert f"**Beware:** {shown}\n" in page
    assert "\x1b" not in page
    (row,) = (line for line in page.splitlines() if line.startswith("| `topic` "))
    assert len(re.findall(r"(?<!\\)\|", row)) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "`plain`"),
        ("a`b", "`` a`b ``"),
        ("``", "``` `` ```"),
        ("`x`", "`` `x` ``"),
    ],
)
def test_code_stays_code_whatever_it_holds(text: str, expected: str) -> None:
    assert md_code(text) == expected


def test_a_block_ends_only_where_it_ends() -> None:
    assert md_block(["```", "x"]) == "````text\n```\nx\n````"
    assert md_block([]) == "```text\n```"


def test_a_table_keeps_its_columns() -> None:
    lines = list(md_table(("a", "b"), [(md_code("x|y"), md_text("p|q"))]))

    assert lines == ["| a | b |", "| --- | --- |", "| `x\\|y` | p\\|q |"]
    assert md_cell("x") == "x"


def test_a_match_is_shown_as_a_person_would_write_it() -> None:
    assert readable_template("a {x:int}{:spaces}{:topic} {{topic:topic}={:word}} {:digit}{}") == (
        "a <x> … {<topic>=…} <number>…"
    )


def test_the_newest_version_is_the_one_that_most_wordings_last_to(rule: Rule) -> None:
    other = replace(rule, wordings=(replace(rule.wordings[0], versions=("1.0", "9.9")),))

    assert newest_version([rule, rule, other]) == "4.3"
    assert newest_version([]) == ""
