"""Layout files with faults are refused by a sentence."""

from __future__ import annotations

import pytest

from forensics.errors import RuleError
from forensics.lib.yaml_with_lines import FileText
from forensics.parsing.layouts import load_layouts

_PAGE = 'id: x\nmatch: "{time:time} {message:rest}"\ntime: "yyyy-MM-dd HH:mm:ss"\nexamples: []\n'


def test_a_whole_page_is_a_layout() -> None:
    assert "x" == load_layouts([FileText("x.yaml", _PAGE.encode())])[0].id


@pytest.mark.parametrize("key", ["id", "match", "time", "examples"])
def test_a_key_without_a_value_is_missing(key: str) -> None:
    lines = [line if not line.startswith(key) else f"{key}:" for line in _PAGE.splitlines()]

    with pytest.raises(RuleError, match=f"x.yaml:1: layout has no '{key}'"):
        load_layouts([FileText("x.yaml", "\n".join(lines).encode())])
