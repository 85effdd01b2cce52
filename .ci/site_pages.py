"""Makes the site of the pages in docs/, as they are: for mkdocs, which mkdocs.yml tells of it."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)")


def on_config(config: Any) -> None:
    """Put the pages of a folder where the navigation names the folder."""
    config.nav = _unfold(config.nav, Path(config.docs_dir))


def _unfold(entry: Any, docs: Path) -> Any:
    if isinstance(entry, dict):
        return {name: _unfold(below, docs) for name, below in entry.items()}
    if isinstance(entry, list):
        return [_unfold(below, docs) for below in entry]
    if not entry.endswith("/"):
        return entry
    pages = sorted(
        docs.glob(f"{entry}*.md"), key=lambda page: (page.name != "README.md", page.name)
    )
    return [page.relative_to(docs).as_posix() for page in pages]


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Let links that lead out of docs/ lead to the repository."""
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")
    known = {f"docs/{file.src_uri}" for file in files}

    def replace(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        if target in known:
            return match[1]
        return f"{config.repo_url.rstrip('/')}/blob/main/{target}"

    return _LINK.sub(replace, markdown)
