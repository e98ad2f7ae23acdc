"""Which store answers: the one in which the caller's tenant lives. A key or a session says nothing of stores, so they are asked.

Who was found once is looked for there first, and everywhere when it is not there any more: that is how a tenant that has moved is
followed. A store that is away keeps only its own tenants from being served.
"""

from __future__ import annotations

from duly.domain.access import DEFAULT_TENANT_NUMBER, Actor
from duly.domain.errors import DulyError, Forbidden, TooMany, Unavailable
from duly.http import auth
from duly.http.auth import Caller, Headers, Visiting
from duly.http.services import Services
from duly.ports.links import LinkAddress
from duly.usecases.sessions import Session

MOST_REMEMBERED = 10_000


class Homes:
    """The stores behind one API."""

    def __init__(self, services: Services) -> None:
        self._all = (services, *services.neighbours)
        self._found: dict[str, Services] = {}

    async def recognise(self, headers: Headers, peer: str | None, visiting: Visiting | None = None) -> tuple[Services, Caller]:
        """The one who asks, and the services of its store. Raises as auth.recognise does."""
        if len(self._all) == 1:
            return self._all[0], await _ask(self._all[0], headers, peer, visiting)
        shown = auth.bearer(headers) or auth.cookie(headers, auth.SESSION_COOKIE) or ""
        refusals: list[DulyError] = []
        for services in self._in_order(shown):
            try:
                caller = await _ask(services, headers, peer, visiting)
            except (Forbidden, TooMany, Unavailable) as error:
                refusals.append(error)
                continue
            # Every store began with a tenant `default`; the one of the installation lives in the default store.
            if caller.actor.tenant != DEFAULT_TENANT_NUMBER or services.is_default:
                self._remember(shown, services)
                return services, caller
            refusals.append(Forbidden("DULY-E302", "The key is not valid.", field="Authorization"))
        # Who is on its way, or may be in a store that is away, is not told that nobody knows it.
        raise min(refusals, key=_weight)

    async def by_link(self, token: str, kind: str) -> tuple[Services, Actor, LinkAddress]:
        """On whose behalf a link of this kind shows something. Raises Forbidden: a 401, whatever is wrong with it."""
        away: Unavailable | None = None
        for services in self._in_order(token):
            try:
                found = await services.links.recognise(token, kind)
            except Unavailable as error:
                away = away or error
                continue
            if found is not None and (found[0].tenant != DEFAULT_TENANT_NUMBER or services.is_default):
                self._remember(token, services)
                return services, *found
        raise away or Forbidden("DULY-E302", "The link is not valid.", field="token")

    def _in_order(self, shown: str) -> list[Services]:
        first = self._found.get(shown, self._all[0])
        return [first, *(services for services in self._all if services is not first)]

    def _remember(self, shown: str, services: Services) -> None:
        if len(self._found) > MOST_REMEMBERED:
            self._found.clear()
        if shown:
            self._found[shown] = services


async def begin_session(services: Services, token: str, instead_of: str | None, request_id: str) -> Session:
    """Use a login link up, in whichever store it was made. Raises as Sessions.log_in does."""
    refused: Forbidden | None = None
    for each in (services, *services.neighbours):
        try:
            return await each.sessions.log_in(token, instead_of, request_id)
        except Forbidden as error:
            refused = refused or error
    assert refused is not None
    raise refused


async def _ask(services: Services, headers: Headers, peer: str | None, visiting: Visiting | None) -> Caller:
    return await auth.recognise(services.access, services.sessions, services.gate, headers, peer, visiting)


def _weight(error: DulyError) -> int:
    return 0 if isinstance(error, TooMany) else 1 if isinstance(error, Unavailable) else 2
