"""The doorkeeper: writes down when keys and sessions were last used, and forgets sessions that have ended."""

from __future__ import annotations

from dataclasses import dataclass

from duly.domain.instants import MINUTE, Instant, Micros
from duly.ports.keys import Keys
from duly.ports.sessions import SessionStore
from duly.roles.loop import Step
from duly.usecases.uses import Uses


@dataclass(frozen=True, slots=True)
class DoorkeeperSettings:
    """How often it looks, and how often it clears away."""

    every: float = 5.0
    clear_every: Micros = 10 * MINUTE


class Doorkeeper:
    """Beside the API, never in the way of a request: what it cannot write it tries again."""

    name = "doorkeeper"

    def __init__(
        self, keys: Keys, sessions: SessionStore, used_keys: Uses[str], used_sessions: Uses[bytes], settings: DoorkeeperSettings
    ) -> None:
        self._keys = keys
        self._sessions = sessions
        self._used_keys = used_keys
        self._used_sessions = used_sessions
        self._settings = settings
        self._cleared_at: Instant | None = None

    async def step(self, now: Instant) -> Step:
        """Tell the store what was used since, at most once a minute for each."""
        keys = self._used_keys.due(now)
        await self._keys.touch_keys(keys)
        self._used_keys.told(keys, now)
        sessions = self._used_sessions.due(now)
        await self._sessions.touch_sessions(sessions)
        self._used_sessions.told(sessions, now)
        if self._cleared_at is None or abs(now - self._cleared_at) >= self._settings.clear_every:
            await self._sessions.drop_ended(now)
            self._cleared_at = now
        return Step(self._settings.every, {"keys": len(keys), "sessions": len(sessions)})
