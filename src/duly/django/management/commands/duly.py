"""`manage.py duly …`: Duly's own command line, with the project's tasks as its application."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from duly.cli.main import main

# Commands that take an application.
_WITH_APP = ("worker", "up", "dev")


class Command(BaseCommand):
    """`manage.py duly worker`, `manage.py duly up`, and every other command of `duly`."""

    help = "Duly's command line. worker, up and dev run the tasks of this project."

    def run_from_argv(self, argv: list[str]) -> None:
        """Its own options are Duly's, not Django's."""
        sys.exit(main(with_application(argv[2:])))

    def handle(self, *args: Any, **options: Any) -> None:
        """The same from `call_command("duly", "worker")`."""
        code = main(with_application([str(argument) for argument in args]))
        if code:
            sys.exit(code)

    def add_arguments(self, parser: Any) -> None:
        """Whatever there is."""
        parser.add_argument("args", nargs="*")


def with_application(words: list[str]) -> list[str]:
    """The command with the project's application, where one belongs and none is named."""
    if words and words[0] in _WITH_APP and not any(":" in word and not word.startswith("-") and "//" not in word for word in words[1:]):
        return [words[0], "duly.django.jobs:app", *words[1:]]
    return words
