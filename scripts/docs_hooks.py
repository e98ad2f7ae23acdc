"""What the site of the documentation gets besides its pages: a twin in Markdown for each, and `llms.txt`, which lists them all.

Links that leave the documentation (to a file of the repository) are written as the file's name: the site stands alone.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SECTIONS = {"tutorial": "Tutorials", "how-to": "How to", "reference": "Reference", "explanation": "Explanation", "decisions": "Decisions"}
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by MkDocs for each page."""
    return within(markdown, DOCS / page.file.src_path)


def within(markdown: str, path: Path) -> str:
    """A page with links to other pages only; to a folder that has no page of its own, and to files outside, there is none."""

    def kept(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(path.parent / match[2]))
        if target.is_relative_to(DOCS) and (target / "README.md").is_file():
            return f"[{match[1]}]({os.path.relpath(target / 'README.md', path.parent)})"
        if target.is_relative_to(DOCS) and not target.is_dir():
            return match[0]
        return match[1] if match[1].startswith("`") else f"{match[1]} (`{target.relative_to(ROOT)}`)"

    return _LINK.sub(kept, markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Called by MkDocs at the end."""
    site = Path(config["site_dir"])
    for page in pages():
        shutil.copyfile(page, site / page.relative_to(DOCS))
    (site / "llms.txt").write_text(llms(), encoding="utf-8")


def pages() -> list[Path]:
    """Every page of the documentation."""
    return sorted(DOCS.rglob("*.md"))


def llms() -> str:
    """The pages by section, each with its title and its first sentence."""
    lines = [
        "# Duly",
        "",
        "> A job scheduler in Python that fires on time, runs once, and says why. SQLite or PostgreSQL is its truth.",
        "",
    ]
    for folder, heading in SECTIONS.items():
        found = [page for page in pages() if page.relative_to(DOCS).parts[0] == folder]
        lines += [f"## {heading}", "", *(_entry(page) for page in found), ""] if found else []
    return "\n".join(lines)


def _entry(page: Path) -> str:
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    title = next((line.lstrip("# ").strip() for line in text.splitlines() if line.startswith("# ")), page.stem)
    prose = next((block for block in text.split("\n\n")[1:] if block.strip() and block.strip()[0] not in "#|`-*!["), "")
    sentence = re.split(r"(?<=[.:])\s", " ".join(_LINK.sub(r"\1", prose).split()), maxsplit=1)[0]
    return f"- [{title}]({page.relative_to(DOCS)})" + (f": {sentence}" if sentence else "")
