"""Writes the bill of materials of the wheel and what it needs, in the form of CycloneDX.

    python .ci/sbom.py LOCK < BILL > SBOM

BILL is what `cyclonedx-py environment` says of the whole .venv; what LOCK does not name is a tool
of those who work on the project. The script that every page carries is added.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_SCRIPT = _ROOT / "forensics/report/assets/plotly-cartesian.min.js"
_VERSION = _ROOT / "forensics/__init__.py"


def main() -> None:
    """Keep what the lock names."""
    lock = Path(sys.argv[1]).read_text(encoding="utf-8")
    named = {_plain(name) for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}
    bill: dict[str, Any] = json.load(sys.stdin)
    kept = [one for one in bill["components"] if _plain(one["name"]) in named]
    script = _script()
    bill["components"] = [*kept, script]
    project = bill["metadata"]["component"]
    project["version"] = _first(_VERSION, r'^__version__ = "(.*)"$')
    top = project["bom-ref"]
    known = {top, *(one["bom-ref"] for one in bill["components"])}
    edges = [one for one in bill["dependencies"] if one["ref"] in known]
    for edge in edges:
        edge["dependsOn"] = [ref for ref in edge.get("dependsOn", ()) if ref in known]
        if edge["ref"] == top:
            edge["dependsOn"].append(script["bom-ref"])
    bill["dependencies"] = [*edges, {"ref": script["bom-ref"]}]
    json.dump(bill, sys.stdout, indent=1, sort_keys=True)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _first(path: Path, pattern: str) -> str:
    """Return what a pattern finds first in the head of a file."""
    found = re.search(pattern, path.read_text(encoding="utf-8")[:4000], re.MULTILINE)
    if found is None:
        raise ValueError(f"{path} has no {pattern}")
    return found[1]


def _script() -> dict[str, Any]:
    version = _first(_SCRIPT, r" v([\d.]+)$")
    purl = f"pkg:npm/plotly.js-cartesian-dist-min@{version}"
    return {
        "bom-ref": purl,
        "licenses": [{"license": {"id": "MIT"}}],
        "name": "plotly.js-cartesian-dist-min",
        "purl": purl,
        "type": "library",
        "version": version,
    }


if __name__ == "__main__":
    main()
