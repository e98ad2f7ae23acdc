"""The site of the documentation is built as `make docs` does it, and a warning is a failure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from scripts.docs_hooks import DOCS, pages

ROOT = Path(__file__).parents[2]


def test_the_site_is_built_without_a_warning_and_stands_alone(tmp_path: Path) -> None:
    """Links and anchors between pages are the builder's to look at; the rest is looked at here."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )

    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert not re.search(r"WARNING|ERROR", told), told
    for page in pages():
        twin = page.relative_to(DOCS)
        built = twin.with_name("index.html") if twin.name == "README.md" else twin.with_suffix(".html")
        assert (tmp_path / built).is_file(), built
        assert (tmp_path / twin).read_bytes() == page.read_bytes(), "each has its twin in Markdown"
    assert (tmp_path / "llms.txt").is_file()
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"""<(?:script|link|img)[^>]+(?:src|href)=["']?https?://[^"' >]+""", index) == [], "nothing is fetched from elsewhere"
