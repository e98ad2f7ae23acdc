"""`duly tenant`."""

from __future__ import annotations

import json

from tests.cli.processes import Running, duly


def test_a_tenant_is_made_shown_set_and_given_a_key(server: Running) -> None:
    made = server.duly("tenant", "create", "acme", "--weight", "200", "--max-jobs", "1", "--max-queued", "9", "--json")
    tenant = json.loads(made.out)
    theirs = {**server.client_environment, "DULY_KEY": tenant["key"]["secret"]}
    job = ("job", "create", "--handler", "duly.echo", "--name")
    first = duly(*job, "one", env=theirs)
    second = duly(*job, "two", env=theirs)
    widened = server.duly("tenant", "set", "acme", "--max-jobs", "none", "--max-concurrent", "4", "--json")
    shown = server.duly("tenant", "show", "acme")
    key = json.loads(server.duly("tenant", "key", "acme", "--role", "viewer", "--json").out)
    seen = duly("tenant", "list", "--json", env={**server.client_environment, "DULY_KEY": key["secret"]})

    assert "shown this once" in made.err
    assert (tenant["weight"], tenant["quotas"]["maxJobs"], tenant["key"]["tenant"]) == (200, 1, "acme")
    assert first.code == 0, first.err
    assert second.code != 0
    assert "DULY-E401" in second.err
    quotas = json.loads(widened.out)["quotas"]
    assert (quotas["maxJobs"], quotas["maxQueued"], quotas["maxConcurrent"]) == (None, 9, 4)
    assert "0 of 9" in shown.out
    assert tenant["key"]["secret"] not in shown.out
    assert '"default"' not in seen.out
    assert '"acme"' in seen.out
    assert {"acme", "default"} <= {row[0] for row in server.duly("tenant", "list").rows}


def test_what_cannot_be_set_is_said(server: Running) -> None:
    nothing = server.duly("tenant", "set", "default")
    word = server.duly("tenant", "set", "default", "--max-jobs", "few")
    assert "default" in server.duly("tenant", "show").out, "without a name it is one's own"
    nobody = server.duly("tenant", "show", "nobody")

    assert "DULY-E604" in nothing.err
    assert "--max-jobs" in word.err
    assert "DULY-E262" in nobody.err
