"""The stores of an installation that has more than one: the `[[stores]]` of a TOML file.

[[stores]]
name = "main"                                  # the first is the default one, unless another says default = true
url = "postgresql://duly@db-1/duly"

[[stores]]
name = "eu"
url_file = "/run/secrets/duly-eu"              # a file that contains the address
tenants = ["acme", "eu-*"]                     # which new tenants are made here
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly.domain.errors import Invalid

if TYPE_CHECKING:
    from duly.domain.homes import Plot

FILE = "duly.toml"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_PATTERN = re.compile(r"[A-Za-z0-9*?][A-Za-z0-9._*?-]{0,63}")
_KNOWN = frozenset({"name", "url", "url_file", "tenants", "default"})


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """One store of several: its name, its address, and which new tenants are made there."""

    name: str
    url: str = field(repr=False)
    tenants: tuple[str, ...] = ()
    default: bool = False

    @property
    def plot(self) -> Plot:
        """What the placing of tenants needs of it."""
        from duly.domain.homes import Plot

        return Plot(self.name, self.tenants)


def read_stores(path: Path) -> tuple[StoreSettings, ...]:
    """The stores of a file, the default one first; none when it has no `[[stores]]`. Raises Invalid (DULY-E601)."""
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _wrong(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(f"{path} is not TOML: {error}.") from error
    listed = document.get("stores", [])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise _wrong(f"{path}: stores must be written as [[stores]], once for each of them.")
    found = [_store(path, nth, one) for nth, one in enumerate(listed, 1)]
    names = [store.name for store in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise _wrong(f"{path}: two stores are named {', '.join(sorted(twice))}.")
    if sum(store.default for store in found) > 1:
        raise _wrong(f"{path}: more than one store is the default one.")
    return tuple(sorted(found, key=lambda store: not store.default))


def chosen(stores: Sequence[StoreSettings], names: str) -> tuple[StoreSettings, ...]:
    """Those of these stores that are named, by commas. Raises Invalid (DULY-E264) for a name that none has."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {store.name: store for store in stores}
    for name in wanted:
        if name not in known:
            raise Invalid("DULY-E264", f"There is no store {name!r}.", field="--store", hint=f"There are {', '.join(known)}.")
    return tuple(store for store in stores if store.name in wanted)


def _store(path: Path, nth: int, one: Mapping[str, Any]) -> StoreSettings:
    where = f"{path}, store number {nth}"
    if unknown := sorted(one.keys() - _KNOWN):
        raise _wrong(f"{where}: {', '.join(unknown)} is not known; there are {', '.join(sorted(_KNOWN))}.")
    name, tenants, default = one.get("name"), one.get("tenants", []), one.get("default", False)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(f"{where}: name must be 1 to 32 small letters, digits, - and _.")
    if not isinstance(tenants, list) or not all(isinstance(word, str) and _PATTERN.fullmatch(word) for word in tenants):
        raise _wrong(f"{where}: tenants must be a list of names, or of patterns with * and ?.")
    if not isinstance(default, bool):
        raise _wrong(f"{where}: default must be true or false.")
    return StoreSettings(name, _url(path, where, one), tuple(tenants), default)


def _url(path: Path, where: str, one: Mapping[str, Any]) -> str:
    given = [key for key in ("url", "url_file") if isinstance(one.get(key), str) and one[key]]
    if len(given) != 1:
        raise _wrong(f"{where}: it needs url or url_file, one of the two.")
    if given == ["url"]:
        return str(one["url"])
    file = path.parent / str(one["url_file"])
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise _wrong(f"{where}: {file} cannot be read: {error.strerror}.") from error


def _wrong(message: str) -> Invalid:
    return Invalid("DULY-E601", message, field="DULY_CONFIG")
