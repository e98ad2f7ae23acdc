"""`app.dev()`: the script that declares an application becomes `duly dev` of it."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import NoReturn

from duly import config
from duly.domain.errors import Invalid
from duly.sdk.app import App

CODE = "DULY-E602"
_GUARD = 'Call it under `if __name__ == "__main__":` of the script that you run, or run `duly dev shop.jobs:app`.'


def become_dev(app: App, *, host: str | None, port: int | None) -> NoReturn:
    """Run everything, and again whenever a Python file changes, in this process's place. It is imported by its name there, once more."""
    reference, directory = where_is(app)
    words = [sys.executable, "-m", "duly.cli.main", "dev", reference]
    for option, value in (("host", host), ("port", port), ("store", app.store)):
        if value is not None:
            words += [f"--{option}", str(value)]
    environment = config.environment_without()
    # The script's own directory is where its imports begin, wherever it was called from.
    paths = [directory, *filter(None, [environment.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execve(sys.executable, words, environment)  # noqa: S606 the words are our own


def where_is(app: App) -> tuple[str, str]:
    """The name under which the application is imported, and the directory where that begins. Raises Invalid (DULY-E602)."""
    main = sys.modules["__main__"]
    name = _attribute(main, app)
    if name is None:
        raise Invalid(CODE, "app.dev() was called by a module that is not the script.", hint=_GUARD)
    path = getattr(main, "__file__", None)
    if path is None:
        raise Invalid(CODE, "app.dev() needs a file to import the application from.", hint="Write it into one, such as jobs.py.")
    # Where it was declared: a script may only have imported it.
    for module in (sys.modules.get(task._function.__module__) for task in app.tasks.values()):
        if module is not None and module is not main and (found := _attribute(module, app)) is not None:
            return f"{module.__name__}:{found}", sys.path[0] or os.getcwd()
    if main.__spec__ is not None:
        return f"{main.__spec__.name}:{name}", os.getcwd()
    stem = os.path.splitext(os.path.basename(path))[0]
    if not stem.isidentifier():
        raise Invalid(CODE, f"{os.path.basename(path)} cannot be imported.", hint="Give the file a name such as jobs.py.")
    return f"{stem}:{name}", os.path.dirname(os.path.abspath(path))


def _attribute(module: ModuleType, app: App) -> str | None:
    return next((name for name, value in vars(module).items() if value is app), None)
