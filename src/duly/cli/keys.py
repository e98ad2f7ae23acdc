"""`duly key`: make, list, rotate and revoke API keys; `duly login`: a link for a browser."""

from __future__ import annotations

import msgspec

from duly.cli import output
from duly.cli.output import Column
from duly.cli.parsing import Arguments, Command, Group, Parser, remote_options
from duly.cli.remote import connect
from duly.domain.durations import parse_duration
from duly.domain.errors import Invalid, NotFound
from duly.domain.instants import SECOND
from duly.domain.keys import PREFIX_LENGTH
from duly.sdk import calls
from duly.sdk.client import Client
from duly.wire.keys import KeyView, NewKeyView

ROLES = ("worker", "viewer", "operator", "admin")
ONCE = "The secret is shown this once: keep it where only its user can read it."
# Fewer characters than that name nobody.
SHORTEST = 4
_WHICH = "the key: its id, its name, or the first characters of its id or secret, if they are of one key only"


def _configure_create(parser: Parser) -> None:
    parser.add_argument("--role", required=True, choices=ROLES, help="what it may do; a worker key opens the worker protocol alone")
    parser.add_argument("--name", required=True, help="what people call it, such as gpu-fleet")
    parser.add_argument("--expires", metavar="TIME", help="how long it lasts, such as 90d; for ever otherwise")
    parser.add_argument("--pool", metavar="POOL", action="append", help="a pool that a worker key opens; may be repeated; all otherwise")
    remote_options(parser)


def _create(arguments: Arguments) -> int:
    out = output.of(arguments)
    lasts = None if arguments.expires is None else parse_duration(arguments.expires, field="--expires") / SECOND
    with connect(arguments) as client:
        key = client.send(calls.create_key(arguments.role.upper(), arguments.name, expires_in_sec=lasts, pools=arguments.pool))
    out.one(_with_secret(key), key, name=key.secret)
    out.say(ONCE)
    return 0


def _list(arguments: Arguments) -> int:
    with connect(arguments) as client:
        items = client.send(calls.list_keys()).items
    output.of(arguments).rows(_COLUMNS, items, name=lambda key: key.key_id)
    return 0


def _configure_rotate(parser: Parser) -> None:
    parser.add_argument("key", metavar="KEY", help=_WHICH)
    parser.add_argument(
        "--overlap", metavar="TIME", default="1h", help="how long the old one goes on working, such as 1h; 0s ends it at once"
    )
    parser.add_argument("--expires", metavar="TIME", help="how long the new one lasts; as long as the old one was made for, otherwise")
    remote_options(parser)


def _rotate(arguments: Arguments) -> int:
    out = output.of(arguments)
    overlap = parse_duration(arguments.overlap, field="--overlap") / SECOND
    lasts = None if arguments.expires is None else parse_duration(arguments.expires, field="--expires") / SECOND
    with connect(arguments) as client:
        key = client.send(calls.rotate_key(_find(client, arguments.key).key_id, overlap_sec=overlap, expires_in_sec=lasts))
    out.one([*_with_secret(key), ("replaces", key.replaces), ("until", output.moment(key.replaced.expires_at))], key, name=key.secret)
    out.say(f"{ONCE} The old one works until then.")
    return 0


def _configure_revoke(parser: Parser) -> None:
    parser.add_argument("key", metavar="KEY", help=_WHICH)
    remote_options(parser)


def _revoke(arguments: Arguments) -> int:
    out = output.of(arguments)
    with connect(arguments) as client:
        key = client.send(calls.revoke_key(_find(client, arguments.key).key_id))
    out.one([("key", key.key_id), ("name", key.name), ("revoked", output.moment(key.revoked_at))], key, name=key.key_id)
    out.say("It opens nothing any more, within seconds and on every server.")
    return 0


def _find(client: Client, text: str) -> KeyView:
    """The key of an id, of the first characters of its id or its secret, or of a name. Raises Invalid when several could be meant."""
    keys = client.send(calls.list_keys()).items
    for fits in (lambda key: key.key_id == text, lambda key: key.name == text, lambda key: _begins(key, text)):
        found = [key for key in keys if fits(key)]
        if len(found) > 1:
            # What has ended is hardly meant.
            found = [key for key in found if _is_alive(key)] or found
        if len(found) > 1:
            hint = "Say one of their ids: " + ", ".join(key.key_id for key in found)
            raise Invalid("DULY-E604", f"{text!r} could be {len(found)} keys.", hint=hint)
        if found:
            return found[0]
    raise NotFound("DULY-E225", f"There is no key {text!r}.", hint="See all: duly key list")


def _is_alive(key: KeyView) -> bool:
    return key.revoked_at is None and (key.expires_at is None or output.instant(key.expires_at) > output.now())


def _begins(key: KeyView, text: str) -> bool:
    """Whether these are the first characters of its id or of its shown prefix; a whole secret that was pasted names its key too."""
    if len(text) < SHORTEST:
        return False
    prefix = key.prefix or ""
    return key.key_id.startswith(text) or prefix.startswith(text) or (len(prefix) >= PREFIX_LENGTH and text.startswith(prefix))


def _with_secret(key: NewKeyView) -> list[tuple[str, str | None]]:
    return [
        ("secret", key.secret),
        ("key", key.key_id),
        ("role", key.role.lower()),
        ("name", key.name),
        ("tenant", key.tenant),
        ("pools", None if key.pools is None else ", ".join(key.pools)),
        ("expires", output.moment(key.expires_at)),
    ]


_COLUMNS: list[Column[KeyView]] = [
    Column("key", lambda key: key.key_id, key="keyId"),
    Column("name", lambda key: key.name),
    Column("role", lambda key: key.role.lower(), lambda key: key.role),
    Column("prefix", lambda key: key.prefix or "–", lambda key: key.prefix or ""),
    Column("pools", lambda key: ", ".join(key.pools or ["–"]), lambda key: ",".join(key.pools or ())),
    Column("used", lambda key: output.relative(key.last_used_at), lambda key: key.last_used_at or "", "lastUsedAt"),
    Column("created", lambda key: output.relative(key.created_at), lambda key: key.created_at, "createdAt"),
    Column("expires", lambda key: output.relative(key.expires_at), lambda key: key.expires_at or "", "expiresAt"),
    Column("revoked", lambda key: output.relative(key.revoked_at), lambda key: key.revoked_at or "", "revokedAt"),
    Column("replaced by", lambda key: key.replaced_by or "–", lambda key: key.replaced_by or "", "replacedBy"),
]


def _configure_login(parser: Parser) -> None:
    parser.add_argument("--role", choices=ROLES[1:], help="a lower role than the key's own, for a session that may do less")
    remote_options(parser)


def _login(arguments: Arguments) -> int:
    out = output.of(arguments)
    with connect(arguments) as client:
        link = client.send(calls.create_login_link(None if arguments.role is None else arguments.role.upper()))
        # A server that does not know its public address is where we have found it.
        url = link.url if "://" in link.url else f"{client.url}{link.url}"
    fields = [("link", url), ("tenant", link.tenant), ("role", link.role.lower()), ("expires", output.moment(link.expires_at))]
    out.one(fields, msgspec.structs.replace(link, url=url), name=url)
    out.say("Open it in a browser. It works once; whoever has it can use it.")
    return 0


COMMANDS = {
    "login": Command("Print a link that logs a browser in, once, within five minutes.", _configure_login, _login, "duly login"),
    "key": Group(
        "API keys of your tenant.",
        "duly key",
        {
            "create": Command("Make a key; its secret is shown once.", _configure_create, _create, "duly key create", changes=True),
            "list": Command("List the keys.", remote_options, _list, "duly key list"),
            "rotate": Command(
                "Put a new key in the place of one, with an overlap.", _configure_rotate, _rotate, "duly key rotate", changes=True
            ),
            "revoke": Command("Revoke a key.", _configure_revoke, _revoke, "duly key revoke", changes=True),
        },
    ),
}
