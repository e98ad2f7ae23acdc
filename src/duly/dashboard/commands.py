"""Every screen as a command: the same question for the command line, curl and Python."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode


@dataclass(frozen=True, slots=True)
class Commands:
    """How to ask for what a screen shows."""

    cli: str
    path: str
    wanted: tuple[tuple[str, str], ...] = ()

    @property
    def curl(self) -> str:
        """As a request."""
        query = f"?{urlencode(self.wanted)}" if self.wanted else ""
        # What is percent-encoded has nothing in it that a shell would read inside double quotes.
        return f'curl -H "Authorization: Bearer $DULY_KEY" "$DULY_URL{self.path}{query}"'

    @property
    def python(self) -> str:
        """In a program, without any library of ours."""
        params = f", params={dict(self.wanted)!r}" if self.wanted else ""
        return (
            "import os, httpx\n\n"
            "headers = {'Authorization': 'Bearer ' + os.environ['DULY_KEY']}\n"
            "with httpx.Client(base_url=os.environ['DULY_URL'], headers=headers) as client:\n"
            f"    print(client.get({self.path!r}{params}).raise_for_status().json())"
        )


def commands(cli: str, path: str, **wanted: str | int | None) -> Commands:
    """How to ask for a screen; parameters that are None are left out."""
    return Commands(cli, path, tuple((name, str(value)) for name, value in wanted.items() if value is not None))
