"""The report's page and its words: what they say, that they are whole, that nothing in a name gets through, and that they stay small."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.verify.pages import render, words
from duly.verify.pages.lanes import chosen
from duly.verify.report import Band, Finding, Lane, Report, Spread, Verdict, spread_of
from tests.verify import reports

VOID = {"br", "col", "hr", "meta"}
# What an element of ours may be called; anything else came from a name.
KNOWN = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "h1", "h2", "h3", "p", "dl", "dt", "dd", "div"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "ol", "ul", "li", "code", "span", "br"),
    *("svg", "desc", "path", "text", "pattern"),
}
XSS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</svg></text><iframe srcdoc='<script>alert(1)</script>'>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<!--<script>alert(1)</script>-->",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "javascript:alert(1)",
    '" onmouseover="alert(1)" x="',
    "' onfocus='alert(1)' autofocus='",
    "{{7*7}} ${7*7} <%= 7*7 %>",
    "\x00\x08\x1b[2J\x1b]0;owned\x07",
    "\u202egnp.exe\u2066\u200b",
    "\ud800 lone",
    "line\nbreak\r\nand\ttab",
    "url(http://example.test/x) @import 'http://example.test/y'",
]


class Reader(HTMLParser):
    """Reads a page as a browser would, and keeps what a test wants to know."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.texts.setdefault(tag, [])
        if tag not in VOID:
            self.open.append(tag)
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.texts[tag][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def good() -> Report:
    return reports.good()


@pytest.fixture(scope="module")
def broken() -> Report:
    return reports.broken()


def empty(**changes: object) -> Report:
    return msgspec.structs.replace(Report(started_at=reports.START, ended_at=reports.START, verdicts=[]), **changes)


def held(invariant: str = "I1", judged: int = 3) -> Verdict:
    return Verdict(invariant=invariant, title="No lost job", status="held", judged=judged)


# ------------------------------------------------------------ what it says


def test_a_good_run_is_said_to_have_held(good: Report) -> None:
    page = Reader(render(good))

    assert page.texts["h1"] == ["Held: 21 of 24 invariants judged, none broken"]
    assert words(good)[0] == "Held: 21 of 24 invariants judged, none broken."


def test_a_broken_run_is_said_to_be_broken_with_what_to_look_up(broken: Report) -> None:
    page = Reader(render(broken))
    lines = words(broken)

    assert page.texts["h1"] == ["BROKEN: I2, I3 and I4; 21 of 24 invariants judged"]
    assert any(
        "two accepted outcomes" in text and reports.run_id(77) in text and "events 20417, 20431" in text for text in page.texts["li"]
    )
    assert any("two accepted outcomes" in line and reports.run_id(77) in line and "2026-03-03 09:" in line for line in lines)


def test_one_broken_promise_is_named_in_the_headline() -> None:
    verdict = Verdict(
        invariant="I4", title="One live lease", status="broken", judged=9, findings=[Finding(invariant="I4", says="two at once")]
    )

    assert words(empty(verdicts=[held(), verdict]))[0] == "BROKEN: I4 One live lease."


def test_twenty_findings_are_shown_and_the_others_counted(broken: Report) -> None:
    page = Reader(render(broken))

    assert sum("was live" in text for text in page.texts["li"]) == 20
    assert sum("and 7 more" in text for text in page.texts["li"]) == 1
    assert "    and 7 more" in words(broken)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (empty(), "Not judged"),
        (empty(verdicts=[held("I0")]), "Not judged"),
        (empty(verdicts=[held(judged=0)]), "Not judged"),
        (empty(verdicts=[held()], counts={"lost": 2}), "BROKEN: lost 2, though no invariant says so"),
        (
            empty(verdicts=[msgspec.structs.replace(held(), findings=[Finding(invariant="I1", says="gone")])]),
            "BROKEN: I1 No lost job",
        ),
        (
            empty(verdicts=[held(), Verdict(invariant="I0", title="The history is whole", status="broken", judged=1)]),
            "BROKEN: I0 The history is whole",
        ),
    ],
)
def test_nothing_is_held_by_default(report: Report, said: str) -> None:
    assert words(report)[0].startswith(said)
    assert Reader(render(report)).texts["h1"][0].startswith(said)


def test_a_count_that_is_missing_is_not_zero() -> None:
    assert "lost not counted" in words(empty(verdicts=[held()], counts={"early": 0}))[1]


def test_targets_that_could_be_missed_are_named_apart() -> None:
    said = words(empty(verdicts=[held()], counts={"targets": 101, "optional": 1189}))

    assert said[2] == "101 targets, 1,189 targets that could be missed, 0 ms long"


def test_a_state_that_was_never_met_is_said_so() -> None:
    report = empty(verdicts=[held()], reached={"zombie overlap": 0, "commit unknown": 4})

    assert "never reached: zombie overlap" in words(report)
    assert "never" in Reader(render(report)).texts["td"]


def test_the_status_is_said_in_words_beside_its_colour(broken: Report) -> None:
    rows = [text for text in Reader(render(broken)).texts["td"] if text in {"✓ held", "✗ broken", "– not judged"}]

    assert len(rows) == 25
    assert rows.count("✗ broken") == 3
    assert rows.count("– not judged") == 3


def test_the_words_name_faults_lateness_and_what_was_not_judged(good: Report) -> None:
    text = "\n".join(words(good))

    assert re.search(
        r"^lost 0 · fired twice 0 · early 0 · stale writes accepted 0 · stale writes refused \d+ · .* · recovery p50 .* s, p99 .* s$",
        text,
        re.MULTILINE,
    )
    assert re.search(r"^late when calm: p50 .* ms", text, re.MULTILINE)
    assert "faults: clock step 6, cut 18" in text
    assert re.search(r"^not judged: I14 .*, I16 .*, I24", text, re.MULTILINE)


def test_the_run_can_be_repeated_from_the_page(good: Report) -> None:
    assert "duly verify --minutes 15 --store postgres --seed 7" in Reader(render(good)).texts["code"]


def test_secrets_that_are_looked_for_are_not_shown() -> None:
    assert "canary-9f2" not in render(empty(about={"canaries": ["canary-9f2"], "seed": 1}))


# ------------------------------------------------------------ that it is whole


@pytest.mark.parametrize("name", ["good", "broken"])
def test_a_page_needs_nothing_from_elsewhere(name: str, request: pytest.FixtureRequest) -> None:
    text = render(request.getfixturevalue(name))
    page = Reader(text)

    assert {tag for tag, _ in page.tags} <= KNOWN
    assert not any({"src", "href", "action", "xlink:href"} & attributes.keys() for _, attributes in page.tags)
    assert not re.search(r"@import|url\((?!#)", text)
    assert page.all("meta")[1]["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_a_page_can_be_read_without_seeing_it(broken: Report) -> None:
    page = Reader(render(broken))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    labels = [name for _, attributes in page.tags for name in (attributes.get("aria-labelledby") or "").split()]

    assert len(ids) == len(set(ids))
    assert set(labels) <= set(ids)
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("h1")) == 1
    assert len(page.all("table")) == len(page.all("caption"))
    assert all("scope" in attributes for attributes in page.all("th"))
    assert all(attributes["role"] == "img" and attributes["aria-labelledby"] for attributes in page.all("svg"))
    assert len(page.all("svg")) == len(page.all("desc"))


def test_figures_are_well_formed(broken: Report) -> None:
    figures = re.findall(r"<svg.*?</svg>", render(broken), re.DOTALL)

    assert len(figures) >= 12
    for figure in figures:
        ET.fromstring(figure)


def test_what_is_missing_or_too_much_has_a_sign_of_its_own(broken: Report, good: Report) -> None:
    def signs(report: Report) -> int:
        figure = re.findall(r"<svg.*?</svg>", render(report), re.DOTALL)[9]
        return sum(path.get("class") == "hollow loud" for path in ET.fromstring(figure).iter("path"))

    assert signs(broken) == 2
    assert signs(good) == 0


def test_the_accused_stand_first_and_the_others_are_counted(broken: Report) -> None:
    lanes = chosen(broken)

    assert {lane.job for lane in lanes[:2]} == {reports.job_id(3), reports.job_id(8)}
    assert len(lanes) == 40
    assert "20 more are left out" in render(broken)


def test_a_close_up_shows_the_moment_of_a_finding(broken: Report) -> None:
    page = Reader(render(broken))

    assert any("the target has neither a fire nor a skip" in text for text in page.texts["h3"])


# ------------------------------------------------------------ names come from users


def poisoned(text: str) -> Report:
    at = reports.START
    return Report(
        started_at=at,
        ended_at=at + reports.MINUTE,
        verdicts=[
            held(),
            Verdict(
                invariant=text,
                title=text,
                status="broken",
                judged=1,
                findings=[Finding(invariant=text, says=text, at=at, job=text, run=text, seqs=[1])],
            ),
            Verdict(invariant="I9", title=text, status="not judged", judged=0, why=text),
        ],
        counts={text: 1, "lost": 0},
        delays={"calm": spread_of([1, 2]), text: spread_of([3])},
        recoveries={text: spread_of([5])},
        faults={text: 1},
        reached={text: 1},
        lanes=[Lane(job=text, name=text, targets=[at], runs=[(at, at, None, True)])],
        bands=[Band(kind=text, since=at, until=at + 1, nodes=[text])],
        about={text: text, "command": text, "nested": {text: [text]}},
    )


@pytest.mark.parametrize("text", XSS)
def test_a_name_stays_text(text: str) -> None:
    page = render(poisoned(text))
    read = Reader(page)

    assert {tag for tag, _ in read.tags} <= KNOWN
    assert not any(
        name.startswith("on") or name in {"src", "href", "srcdoc", "autofocus"} for _, attributes in read.tags for name in attributes
    )
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page)
    page.encode()
    for figure in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(figure)


@pytest.mark.parametrize("text", XSS)
def test_a_name_moves_no_cursor(text: str) -> None:
    said = words(poisoned(text))

    assert not any(re.search(r"[\x00-\x1f\x7f\u202a-\u202e\u2066-\u2069]", line) for line in said)
    assert len(said) == len(words(poisoned("plain")))


@given(st.text(max_size=40))
def test_any_name_is_shown_as_it_is_or_written_out(text: str) -> None:
    page = Reader(render(empty(verdicts=[held()], reached={text: 1})))

    shown = page.texts["th"][-1]
    assert shown == text or "\\u" in shown


# ------------------------------------------------------------ any report, and long ones

instants = st.integers(-(10**18), 10**18) | st.integers(reports.START, reports.START + reports.MINUTE)
lanes = st.builds(
    Lane,
    job=st.just("job"),
    name=st.just("name"),
    targets=st.lists(instants, max_size=4),
    optional=st.lists(instants, max_size=4),
    skipped=st.lists(instants, max_size=4),
    runs=st.lists(st.tuples(instants, instants, st.none() | instants, st.booleans()), max_size=4),
    missing=st.lists(instants, max_size=2),
    extra=st.lists(instants, max_size=2),
)
bands = st.builds(Band, kind=st.sampled_from(["kill", "cut"]), since=instants, until=instants, nodes=st.just([]))
spreads = st.builds(spread_of, st.lists(st.integers(-(10**9), 10**15), max_size=5)) | st.just(Spread(count=3, p50=1, p99=2, most=3))


@given(
    st.builds(
        Report,
        started_at=instants,
        ended_at=instants,
        verdicts=st.just([held()]),
        lanes=st.lists(lanes, max_size=3),
        bands=st.lists(bands, max_size=3),
        delays=st.dictionaries(st.sampled_from(["calm", "faulty"]), spreads),
        recovery=spreads,
    )
)
def test_every_report_can_be_rendered(report: Report) -> None:
    for figure in re.findall(r"<svg.*?</svg>", render(report), re.DOTALL):
        assert not re.search(r"\b(nan|inf)\b", figure)
        ET.fromstring(figure)
    assert words(report)


def test_fifty_thousand_fires_make_a_small_file() -> None:
    report = reports.long()
    assert sum(len(lane.targets) for lane in report.lanes) >= 50_000

    page = render(report)

    assert len(page.encode()) < 1_000_000
    Reader(page)
