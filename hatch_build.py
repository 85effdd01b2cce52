"""Gives indexes a README whose links lead to the repository: an index has no other files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)\s:]+)\)")


class ReadmeHook(MetadataHookInterface):
    """Sets the readme of the package's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put addresses in the place of paths."""
        home = metadata["urls"]["Source"]
        text = Path(self.root, "README.md").read_text(encoding="utf-8")

        def replace(match: re.Match[str]) -> str:
            view = "raw" if match["image"] else "blob"
            return f"{match['image']}[{match['text']}]({home}/{view}/main/{match['path']})"

        metadata["readme"] = {"content-type": "text/markdown", "text": _LINK.sub(replace, text)}
