"""`duly key`: make, list and revoke API keys."""

from __future__ import annotations

from duly.cli import output
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Command, Group, Parser, remote_options
from duly.cli.remote import connect
from duly.domain.durations import parse_duration
from duly.domain.instants import SECOND
from duly.sdk import calls
from duly.wire.keys import KeyView

ROLES = ("worker", "viewer", "operator", "admin")


def _configure_create(parser: Parser) -> None:
    parser.add_argument("--role", required=True, choices=ROLES, help="what it may do; a worker key opens the worker protocol alone")
    parser.add_argument("--name", required=True, help="what people call it, such as gpu-fleet")
    parser.add_argument("--expires", metavar="TIME", help="how long it lasts, such as 90d; for ever otherwise")
    remote_options(parser)


def _create(arguments: Arguments) -> int:
    out = output.of(arguments)
    lasts = None if arguments.expires is None else parse_duration(arguments.expires, field="--expires") / SECOND
    with connect(arguments) as client:
        key = client.send(calls.create_key(arguments.role.upper(), arguments.name, expires_in_sec=lasts))
    fields = [("secret", key.secret), ("key", key.key_id), ("role", key.role.lower()), ("name", key.name), ("tenant", key.tenant)]
    out.one([*fields, ("expires", output.moment(key.expires_at))], key, name=key.secret)
    out.say("The secret is shown this once: keep it where only its user can read it.")
    return 0


def _list(arguments: Arguments) -> int:
    with connect(arguments) as client:
        items = client.send(calls.list_keys()).items
    output.of(arguments).rows(_COLUMNS, items, name=lambda key: key.key_id)
    return 0


def _configure_revoke(parser: Parser) -> None:
    parser.add_argument("key", metavar="KEY", help="the id of the key, as `duly key list` shows it")
    remote_options(parser)


def _revoke(arguments: Arguments) -> int:
    out = output.of(arguments)
    with connect(arguments) as client:
        key = client.send(calls.revoke_key(arguments.key))
    out.one([("key", key.key_id), ("name", key.name), ("revoked", output.moment(key.revoked_at))], key, name=key.key_id)
    out.say("It opens nothing any more, within seconds and on every server.")
    return 0


_COLUMNS: list[Column[KeyView]] = [
    Column("key", lambda key: key.key_id, key="keyId"),
    Column("name", lambda key: key.name),
    Column("role", lambda key: key.role.lower(), lambda key: key.role),
    Column("created", lambda key: output.relative(key.created_at), lambda key: key.created_at, "createdAt"),
    Column("expires", lambda key: output.relative(key.expires_at), lambda key: key.expires_at or "", "expiresAt"),
    Column("revoked", lambda key: output.relative(key.revoked_at), lambda key: key.revoked_at or "", "revokedAt"),
]

COMMANDS = {
    "key": Group(
        "API keys of your tenant.",
        "duly key",
        {
            "create": Command("Make a key; its secret is shown once.", _configure_create, _create, "duly key create", changes=True),
            "list": Command("List the keys.", remote_options, _list, "duly key list"),
            "revoke": Command("Revoke a key.", _configure_revoke, _revoke, "duly key revoke", changes=True),
        },
    )
}
