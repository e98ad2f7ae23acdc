"""Settings from files, below the environment: a project's `duly.toml` or `[tool.duly]`, then a user's own file and contexts.

    ./duly.toml                        url = "https://duly.example.com"        # keys are the settings in small letters, without DULY_
    pyproject.toml                     [tool.duly]                             # when there is no duly.toml
    ~/.config/duly/contexts.toml       current = "prod", [contexts.prod]       # written by `duly context`
    ~/.config/duly/config.toml         log_level = "debug"

A context that is chosen by a flag or by DULY_CONTEXT stands above the project's file. A name that does not exist is an error. A key of the
user's own is not sent to an address that only the project's file names: whoever wrote that file would get it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from duly.config.table import SETTINGS
from duly.domain.errors import Invalid

PROJECT_FILE = "duly.toml"
LARGEST_FILE = 1 << 20
# The mark of a context, besides its settings; those of these names have it unless it says otherwise.
PROTECTED = "protected"
_PROTECTED_NAMES = ("prod", "production")
_SECRETS = {setting.name for setting in SETTINGS if setting.secret}
_NOT_IN_FILES = {"DULY_CONFIG", "DULY_CONTEXT"}
NAMES = {
    **{setting.name.removeprefix("DULY_").lower(): setting.name for setting in SETTINGS if setting.name not in _NOT_IN_FILES},
    **{f"{name.removeprefix('DULY_').lower()}_file": f"{name}_FILE" for name in sorted(_SECRETS)},
}


@dataclass(frozen=True, slots=True)
class Layer:
    """The settings of one file, by their variables, and how it is called."""

    origin: str
    values: Mapping[str, str] = field(repr=False)
    is_project: bool = False


def settings_directory(environment: Mapping[str, str]) -> Path | None:
    """Where a user's own files are, as the desktop's rules have it; None when nobody is at home."""
    named = environment.get("XDG_CONFIG_HOME", "")
    if named.startswith("/"):
        return Path(named) / "duly"
    home = environment.get("HOME", "")
    return Path(home) / ".config" / "duly" if home.startswith("/") else None


def layers(environment: Mapping[str, str], context: str | None = None) -> list[Layer]:
    """The files that there are, the strongest first. Raises Invalid (DULY-E601) for one that cannot be read, or an unknown context."""
    found: list[Layer] = []
    directory = settings_directory(environment)
    wanted = context or environment.get("DULY_CONTEXT") or None
    contexts = read_contexts(directory)
    current = wanted or contexts.current
    chosen: list[Layer] = []
    if current is not None:
        if current not in contexts.known:
            hint = _meant(current, contexts.known) or "`duly context add` makes one, `duly context list` shows them."
            raise Invalid("DULY-E601", f"There is no context {current!r}.", field="DULY_CONTEXT", hint=hint)
        own = {key: value for key, value in contexts.known[current].items() if key != PROTECTED}
        chosen = [Layer(f"context {current}", _values(own, f"context {current}"))]
    if wanted is not None:
        found += chosen
    found += _project(environment)
    if wanted is None:
        found += chosen
    if directory is not None and (table := _read(directory / "config.toml")) is not None:
        found.append(Layer(str(directory / "config.toml"), _values(table, str(directory / "config.toml"))))
    return found


def merged(environment: Mapping[str, str], context: str | None = None) -> tuple[dict[str, str], dict[str, str]]:
    """Every variable with its text, the environment's first, and where those come from that do not come from the environment."""
    values, origins = dict(environment), {}
    for layer in layers(environment, context):
        for name, text in layer.values.items():
            # A secret and the file that has it are one setting: the stronger layer decides about both.
            if name in values or name.removesuffix("_FILE") in values or f"{name}_FILE" in values:
                continue
            values[name], origins[name] = text, layer.origin
        if layer.is_project and origins.get("DULY_URL") == layer.origin:
            _refuse_to_betray(values, origins, layer)
    return values, origins


def _refuse_to_betray(values: Mapping[str, str], origins: Mapping[str, str], layer: Layer) -> None:
    own = [
        name
        for name in ("DULY_KEY", "DULY_KEY_FILE", "DULY_ADMIN_KEY", "DULY_ADMIN_KEY_FILE")
        if name in values and origins.get(name) != layer.origin
    ]
    if own and not _is_here(values["DULY_URL"]):
        hint = f"Set DULY_URL beside {own[0]}, or make a context of both: duly context add NAME --url URL --key-file FILE."
        raise Invalid("DULY-E601", f"{layer.origin} names the server, and the key is yours: it is not sent there.", field=own[0], hint=hint)


def _is_here(url: str) -> bool:
    from ipaddress import ip_address

    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _project(environment: Mapping[str, str]) -> list[Layer]:
    named = environment.get("DULY_CONFIG") or PROJECT_FILE
    if (table := _read(Path(named))) is not None:
        return [Layer(named, _values({key: value for key, value in table.items() if key != "stores"}, named), is_project=True)]
    path = Path("pyproject.toml")
    try:
        if not path.is_file() or "[tool.duly" not in path.read_text(encoding="utf-8"):
            return []
    except (OSError, UnicodeDecodeError):
        return []
    table = (_read(path) or {}).get("tool", {}).get("duly", {})
    return [Layer("pyproject.toml", _values(table, "pyproject.toml"), is_project=True)]


@dataclass(frozen=True, slots=True)
class Contexts:
    """The contexts of a user by name, and the one that is in use."""

    known: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    current: str | None = None


def read_contexts(directory: Path | None) -> Contexts:
    """Those that there are. Raises Invalid (DULY-E601) when the file is not as `duly context` writes it."""
    table = None if directory is None else _read(directory / "contexts.toml")
    if table is None:
        return Contexts()
    known, current = table.get("contexts", {}), table.get("current")
    if not isinstance(known, dict) or not all(isinstance(one, dict) for one in known.values()) or not isinstance(current, str | None):
        raise Invalid(
            "DULY-E601", f"{directory}/contexts.toml is not as `duly context` writes it.", hint="Remove it, and add the contexts again."
        )
    return Contexts(known, current)


def is_protected(name: str, table: Mapping[str, Any]) -> bool:
    """Whether wide changes by way of this context are asked about."""
    return bool(table.get(PROTECTED, name in _PROTECTED_NAMES))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > LARGEST_FILE:
            raise Invalid("DULY-E601", f"{path} is larger than 1 MB.")
        # Most commands find no file, and start without what reads one.
        import tomllib

        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Invalid("DULY-E601", f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise Invalid("DULY-E601", f"{path} is not TOML: {error}.") from error


def _values(table: Mapping[str, Any], where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in table.items():
        if key not in NAMES:
            hint = _meant(key, NAMES) or "docs/reference/settings.md has them all, in small letters and without DULY_."
            raise Invalid("DULY-E601", f"{where}: {key!r} is not a setting.", hint=hint)
        found[NAMES[key]] = _text(value, f"{where}: {key}")
    return found


def _meant(typed: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    close = get_close_matches(typed, known, n=1)
    return f"Did you mean {close[0]}?" if close else None


def _text(value: Any, where: str) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return str(value)
        case list() if all(isinstance(one, str) for one in value):
            return ",".join(value)
        case _:
            raise Invalid("DULY-E601", f"{where} must be text, a number, true or false, or a list of texts.")


def schema() -> dict[str, Any]:
    """A JSON Schema of `duly.toml`, for editors."""
    settings = {setting.name: setting for setting in SETTINGS}
    properties: dict[str, Any] = {}
    for key, name in NAMES.items():
        setting = settings[name if name in settings else name.removesuffix("_FILE")]
        text = setting.help if name in settings else f"A file that contains it. {setting.help}"
        properties[key] = {"type": ["string", "integer", "boolean", "array"], "items": {"type": "string"}, "description": text}
        if name in settings and setting.default:
            properties[key]["default"] = setting.default
    properties["stores"] = {
        "type": "array",
        "items": {"type": "object"},
        "description": "The stores of an installation that has more than one.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of Duly (duly.toml)",
        "type": "object",
        "properties": dict(sorted(properties.items())),
        "additionalProperties": False,
    }
