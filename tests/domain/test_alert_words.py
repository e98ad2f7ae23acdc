"""Rules and channels in a sentence."""

from __future__ import annotations

import pytest

from duly.domain.alerts.channel import Channel, ChannelKind
from duly.domain.alerts.evaluate import Event, Incident, Phase
from duly.domain.alerts.message import Notice
from duly.domain.alerts.rule import Condition, GroupBy, Kind, Recovery, Rule
from duly.domain.alerts.words import channel_words, rule_words
from duly.domain.calendars import Calendar
from duly.domain.ids import id_floor
from duly.domain.instants import HOUR, MINUTE, SECOND


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule(name="x", condition=Condition(kind=Kind.FINAL_FAILURE)), "A run of any job fails for good."),
        (
            Rule(name="x", condition=Condition(kind=Kind.FAILURES), jobs=("a", "b"), recovery=Recovery(runs=2)),
            "3 runs in a row of a or b fail for good. It is over after 2 good runs in a row.",
        ),
        (
            Rule(
                name="x",
                condition=Condition(kind=Kind.FAILURE_RATE, percent=12.5),
                recovery=Recovery(percent=5, after=MINUTE),
                group_by=GroupBy.CAUSE,
            ),
            (
                "12.5 % of the runs of any job within 1h, of at least 10, fail for good. It is over below 5 %, and once it has been well "
                "for 1m. All that has one cause is one incident."
            ),
        ),
        (Rule(name="x", condition=Condition(kind=Kind.LATE)), "A run of any job has not started 5m after its time."),
        (
            Rule(name="x", condition=Condition(kind=Kind.MISSED, after=HOUR), jobs=("a",), grace=90 * SECOND),
            "A fire of a has not started 1h after its time, or is not on record at all, and that holds for 1m30s.",
        ),
        (
            Rule(name="x", condition=Condition(kind=Kind.OVERRUN), jobs=("a", "b", "c", "d"), group_by=GroupBy.ALL),
            "A run of any of 4 jobs takes longer than 2 times what its runs mostly take. All of it is one incident.",
        ),
        (Rule(name="x", condition=Condition(kind=Kind.OVERRUN, after=HOUR)), "A run of any job takes longer than 1h."),
        (Rule(name="x", condition=Condition(kind=Kind.NO_SUCCESS, after=HOUR), jobs=("a",)), "No run of a has succeeded for 1h."),
        (
            Rule(name="x", condition=Condition(kind=Kind.DEAD_LETTERS), calendars=("freeze",)),
            "10 dead letters of the last 1h are dealt with by nobody. Nobody is told in the times of freeze.",
        ),
        (
            Rule(name="x", condition=Condition(kind=Kind.POOL_SATURATED), pools=("gpu",), quiet=Calendar(name="quiet-hours")),
            "Something has waited in gpu for more than 10m. Nobody is told in its quiet hours.",
        ),
        (
            Rule(name="x", condition=Condition(kind=Kind.WORKER_GONE)),
            "A worker of any pool fell silent within 1h, and nobody has taken its place.",
        ),
        (Rule(name="x", condition=Condition(kind=Kind.STORE_UNHEALTHY)), "The store does not answer, and that holds for 30s."),
    ],
)
def test_a_rule_is_a_sentence(rule: Rule, words: str) -> None:
    assert rule_words(rule) == words


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_its_words(kind: Kind) -> None:
    assert len(rule_words(Rule(name="x", condition=Condition(kind=kind, percent=5, after=MINUTE), jobs=("a",)))) > 20


def test_a_channel_is_a_sentence_without_the_rest_of_its_address() -> None:
    hook = Channel(name="x", kind=ChannelKind.WEBHOOK, url="https://ops.example.com/s3cret?t=s3cret", secret="env:OPS")
    mail = Channel(name="x", kind=ChannelKind.EMAIL, to=("a@example.com", "b@example.com"), sender="c@example.com", host="mail.example.com")

    assert channel_words(hook) == "Posts to https://ops.example.com/…, signed with env:OPS."
    assert channel_words(mail) == "Sends e-mail to a@example.com and b@example.com, from c@example.com through mail.example.com."
    assert channel_words(Channel(name="x", kind=ChannelKind.SLACK, secret="file:slack")) == "Writes to Slack, at the address in file:slack."
    assert "of PagerDuty" in channel_words(Channel(name="x", kind=ChannelKind.PAGERDUTY, secret="env:KEY"))


def test_what_is_told_leads_to_the_page_of_its_incident() -> None:
    incident = Incident(id=id_floor(HOUR), tenant=1, rule="x", subject="all", phase=Phase.OPEN, since=HOUR)

    told = Notice(incident, Event.OPENED, "default", "https://ops.example.com/duly/")

    assert told.url == f"https://ops.example.com/duly/alerts/inc_{incident.id.hex}"
    assert told.text.endswith(told.url)
    assert Notice(incident, Event.OPENED, "default").url is None
