"""`duly init`: one file to begin with, and settings beside it. What is there already is never touched."""

from __future__ import annotations

from pathlib import Path

from duly.cli.errors import OK
from duly.cli.parsing import Arguments, Command, Parser
from duly.domain.errors import Conflict, Invalid

_JOBS = '''"""Jobs of {name}: `duly dev {name}_jobs:app` runs them."""

from duly import App, Context

app = App("{name}")


@app.job(cron="30 2 * * *", tz="UTC", retry=3, timeout="10m")
def nightly(ctx: Context, region: str = "eu") -> dict[str, str]:
    """Runs every night; try it now with `duly run nightly region=us --wait`."""
    ctx.log.info("working", region=region)
    return {{"region": region}}


@app.job
def greet(name: str = "world") -> str:
    """Runs when it is asked to: `duly run greet name=you --wait`."""
    return f"hello {{name}}"
'''
_SETTINGS = """# Settings of Duly for this project: docs/how-to/configure.md. A variable DULY_… wins over a line here.
# slots = 50
# pool = "default"
"""


def _configure(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="how the application is called; this directory's name otherwise")
    parser.add_argument("--dry-run", action="store_true", help="say which files would be written, and write none")


def _init(arguments: Arguments) -> int:
    name = (arguments.name or Path.cwd().name).replace("-", "_").lower()
    if not name.isidentifier() or not name.isascii():
        raise Invalid("DULY-E604", f"{name!r} is no name for a module of Python.", hint="Letters, digits and _: duly init shop")
    files = {Path(f"{name}_jobs.py"): _JOBS.format(name=name), Path("duly.toml"): _SETTINGS}
    if there := [str(path) for path in files if path.exists()]:
        raise Conflict(
            "DULY-E604",
            f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there already.",
            hint="Nothing was written. Choose another name, or another directory.",
        )
    if arguments.dry_run:
        print(*files, sep="\n")
        return OK
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    print(f"{name}_jobs.py and duly.toml are here. Next:\n\n  duly dev {name}_jobs:app")
    print("  duly run greet name=you --wait      in another terminal")
    return OK


COMMANDS = {"init": Command("Write a first application and its settings into this directory.", _configure, _init, "duly init")}
