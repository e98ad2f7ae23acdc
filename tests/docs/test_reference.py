"""The reference says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duly.domain.codes import CODES
from duly.domain.why.answers import MEANINGS, WhyCode
from scripts.reference import TARGET, pages

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(pages()))
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    assert (TARGET / name).read_text(encoding="utf-8") == pages()[name], "run `python -m scripts.reference`"


def test_every_code_that_is_raised_is_registered_and_every_registered_one_is_used() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py") if path.name != "codes.py")
    raised = set(re.findall(r"DULY-E\d{3}", source))

    assert raised - CODES.keys() == set()
    assert CODES.keys() - raised == set()


def test_every_reason_has_a_meaning_and_is_given_somewhere() -> None:
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src/duly/domain/why").glob("*.py") if path.name != "answers.py"
    )
    given = set(re.findall(r"WhyCode\.([A-Z_]+)", source))

    assert MEANINGS.keys() == set(WhyCode)
    assert given == {code.name for code in WhyCode}


def anchors(page: Path) -> set[str]:
    """The ids of a page's headings, as the site and the forge make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line) for line in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_links_in_the_documents_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]:
        for target, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")):
            leads_to = page.parent / target if target else page
            assert leads_to.exists(), f"{page.relative_to(ROOT)} → {target}"
            assert not anchor or anchor in anchors(leads_to), f"{page.relative_to(ROOT)} → {target}#{anchor}"


def test_a_heading_that_is_not_there_would_be_noticed() -> None:
    assert "what-a-restored-store-does" in anchors(ROOT / "docs/how-to/backup.md")
    assert "what-a-restored-store-did" not in anchors(ROOT / "docs/how-to/backup.md")
