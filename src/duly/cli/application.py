"""The application that a command names: `module:attribute`."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from types import ModuleType

from duly.cli.errors import did_you_mean
from duly.domain.errors import DulyError, Invalid
from duly.sdk.app import App

CODE = "DULY-E602"
EXAMPLE = "Name it as module:attribute, such as shop.jobs:app, from the directory where it can be imported."


def load(reference: str) -> App:
    """Import an application; the attribute is `app` unless it is named. Raises Invalid (DULY-E602) with the reason."""
    name, _, attribute = reference.partition(":")
    if not name or name.endswith(".py") or not all(part.isidentifier() for part in name.split(".")):
        raise Invalid(CODE, f"{reference!r} is not the name of an application.", hint=_hint_for_a_file(name) or EXAMPLE)
    module = _module(name)
    found: object = module
    for part in (attribute or "app").split("."):
        if not hasattr(found, part):
            apps = [key for key, value in vars(module).items() if isinstance(value, App)]
            others = " and ".join(f"{name}:{key}" for key in apps)
            hint = f"It has {others}." if apps else f"Write there: from duly import App; {part} = App({name!r})."
            raise Invalid(CODE, f"The module {name} has no {attribute or 'app'!r}.", hint=hint)
        found = getattr(found, part)
    if not isinstance(found, App):
        raise Invalid(CODE, f"{name}:{attribute or 'app'} is a {type(found).__name__}, not a duly.App.", hint=EXAMPLE)
    return found


def _module(name: str) -> ModuleType:
    directory = os.getcwd()
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            here = [entry.removesuffix(".py") for entry in sorted(os.listdir(directory)) if entry.endswith(".py")]
            hint = did_you_mean(name, here) or f"It was looked for in {directory} and in the installed packages."
            raise Invalid(CODE, f"There is no module {name!r}.", hint=hint) from error
        raise _broken(name, error) from error
    except DulyError as error:
        raise Invalid(error.code, f"{name}: {error.message}", field=error.field, hint=error.hint) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> Invalid:
    """The module is there and fails: the line is the last one that is the user's own."""
    if isinstance(error, SyntaxError):
        where = f"{error.filename}, line {error.lineno}"
        return Invalid(CODE, f"Importing {name} failed: {type(error).__name__}: {error.msg}.", hint=f"See {where}.")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    own = [frame for frame in frames if os.path.dirname(__file__) not in frame.filename]
    hint = f"See {own[-1].filename}, line {own[-1].lineno}." if own else EXAMPLE
    return Invalid(CODE, f"Importing {name} failed: {type(error).__name__}: {error}.", hint=hint)


def _hint_for_a_file(text: str) -> str | None:
    if not text.endswith(".py"):
        return None
    return f"It is named as it is imported: {text.removesuffix('.py').strip('./').replace('/', '.')}"
