"""What an import reads: files as text, YAML and TOML of others, and this machine's zone. Nothing of it is run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from duly.domain.errors import Invalid, Unavailable
from duly.domain.imports import apscheduler, celery, crontab, github, kubernetes, systemd
from duly.domain.imports.draft import Draft, cannot

LARGEST_FILE = 8 << 20


def machine_zone() -> str:
    """The zone of this machine by name, where one is known; UTC otherwise."""
    try:
        named = Path("/etc/timezone").read_text(encoding="utf-8").strip()
        if named:
            return named
    except (OSError, UnicodeDecodeError):
        pass
    target = os.path.realpath("/etc/localtime")
    return target.partition("/zoneinfo/")[2] or "UTC"


def text_of(path: str) -> str:
    """A file, or standard input for `-`. Raises Invalid (DULY-E604)."""
    if path == "-":
        return sys.stdin.read(LARGEST_FILE)
    try:
        if Path(path).stat().st_size > LARGEST_FILE:
            raise Invalid("DULY-E604", f"{path} is larger than 8 MB.")
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Invalid("DULY-E604", f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise Invalid("DULY-E604", f"{path} is not UTF-8.") from error


def documents_of(path: str) -> list[Any]:
    """The documents of a YAML or JSON file."""
    text = text_of(path)
    if path.endswith(".json") or text.lstrip().startswith("{"):
        import json

        try:
            return [json.loads(text)]
        except (ValueError, RecursionError) as error:
            raise Invalid("DULY-E604", f"{path} is not JSON: {error}.") from error
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise Unavailable(
            "DULY-E613", "Reading YAML takes the package PyYAML.", hint="pip install 'duly[yaml]', or convert it to JSON."
        ) from error
    try:
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Invalid("DULY-E604", f"{path} is not YAML: {' '.join(str(error).split())}.") from error


def from_crontab(arguments: Any, zone: str) -> list[Draft]:
    """Drafts of crontabs."""
    drafts: list[Draft] = []
    for path in arguments.file:
        text = text_of(path)
        system = arguments.has_users if arguments.has_users is not None else crontab.is_system(text, path)
        drafts += crontab.read(text, zone=zone, system=system, pool=arguments.pool or "default")
    return drafts


def from_systemd(arguments: Any, zone: str) -> list[Draft]:
    """Drafts of timers; a directory stands for all that lie in it."""
    drafts: list[Draft] = []
    for path in _timers(arguments.file):
        timer = systemd.parse_unit(text_of(str(path)))
        beside = path.parent / systemd.service_of(timer, path.name)
        service = systemd.parse_unit(text_of(str(beside))) if beside.is_file() else None
        drafts += systemd.read(timer, service, name=path.name, zone=zone, pool=arguments.pool or "default")
    return drafts


def _timers(paths: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        found += sorted(path.glob("*.timer")) if path.is_dir() else [path]
    return found


def from_celery(arguments: Any, zone: str) -> list[Draft]:
    """Drafts of beat schedules."""
    return _python(arguments, lambda text: celery.read(text, zone=arguments.tz, pool=arguments.pool))


def from_apscheduler(arguments: Any, zone: str) -> list[Draft]:
    """Drafts of APScheduler's jobs."""
    return _python(arguments, lambda text: apscheduler.read(text, zone=zone, pool=arguments.pool))


def _python(arguments: Any, read: Callable[[str], list[Draft]]) -> list[Draft]:
    drafts: list[Draft] = []
    for path in arguments.file:
        try:
            drafts += read(text_of(path))
        except ValueError as error:
            raise Invalid("DULY-E604", f"{path}: {error}.") from error
    return drafts


def from_github(arguments: Any, zone: str) -> list[Draft]:
    """Drafts of workflow files."""
    drafts: list[Draft] = []
    for path in arguments.file:
        found = [
            draft
            for document in documents_of(path)
            for draft in github.read(
                document, file=path, repository=arguments.repository, ref=arguments.ref, pool=arguments.pool or "default"
            )
        ]
        drafts += found or [cannot(Path(path).stem, path, "on", "It has no `on.schedule`.")]
    return drafts


def from_kubernetes(arguments: Any, zone: str) -> list[Draft]:
    """Drafts of manifests."""
    zone = arguments.tz or "UTC"
    documents = [document for path in arguments.file for document in documents_of(path)]
    return kubernetes.read(documents, zone=zone, pool=arguments.pool or "default")
