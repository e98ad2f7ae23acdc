"""House rules that no linter knows, read off the syntax trees and the tracked files."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "duly"
MODULE_LINES = 450

# Time, chance and the world are arguments of the domain, never imports.
WORLDLY = {"asyncio", "logging", "os", "random", "secrets", "socket", "sqlite3", "subprocess", "threading", "time"}
# The one library that decisions rest on: recurrence rules are expanded by pure functions of its own.
LENT = {"src/duly/domain/rule.py": {"dateutil"}}
WALL_CLOCK = {"now", "today", "utcnow"}
# What a simulation runs must ask its ports for time, chance and threads, or a seed could not repeat it.
REPEATABLE = ("domain", "ports", "wire", "usecases", "roles", "adapters/memory", "adapters/sql")
UNREPEATABLE = {"random", "secrets", "threading", "time", "concurrent"}
UNREPEATABLE_CALLS = {
    "asyncio.to_thread",
    "datetime.now",
    "datetime.today",
    "datetime.utcnow",
    "os.getpid",
    "os.urandom",
    "uuid.uuid1",
    "uuid.uuid4",
    "uuid1",
    "uuid4",
}
# Each with the reason why the simulation does not meet it.
NOT_SIMULATED = {
    "src/duly/adapters/sql/engine_sqlite.py": "the writer's thread and the machine's clock: the simulation has an engine of its own",
    "src/duly/adapters/sql/postgres/lines.py": "connections to PostgreSQL: the simulation runs on SQLite",
    "src/duly/adapters/sql/postgres/watch.py": "the same",
    "src/duly/adapters/sql/transport_postgres.py": "the same",
    "src/duly/adapters/sql/postgres/look_back.py": "how long ago PostgreSQL was asked for its dead rows: the simulation runs on SQLite",
    "src/duly/adapters/sql/specs.py": "how long ago a definition was read: it is forgotten by that, and nobody decides by it",
    "src/duly/adapters/sql/sqlite/transactions.py": "transactions of handlers in threads",
    "src/duly/roles/heartbeat.py": "the thread that beats: the simulation beats in a task, with the same logic",
    "src/duly/roles/keeper.py": "checkpoints that handlers in threads ask for",
    "src/duly/ports/handlers.py": "checkpoints that handlers in threads ask for",
}
UNSAFE_MODULES = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}
UNSAFE_BUILTINS = {"__import__", "eval", "exec"}
UNSAFE_CALLS = {"asyncio.create_subprocess_shell", "os.popen", "os.system", "yaml.load", "yaml.unsafe_load"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv"}

MACHINE_PATH = re.compile(r"""(?<![\w.$}~/-])/(?:(?:work|root|home)/\w|(?:work|root)(?=[\s"'`:;)]|$))""", re.MULTILINE)
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.npmjs\.org|static\.crates\.io|index\.crates\.io|proxy\.golang\.org"
    r"|repo1?\.maven|deb\.debian\.org|security\.debian\.org|archive\.ubuntu\.com|--(?:extra-)?index-url|--find-links"
)


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, parsed, by its path from the root. At the first use: whoever only lists the tests needs none."""
    return {str(path.relative_to(ROOT)): parsed(path) for path in sorted(SOURCE.rglob("*.py"))}


def parsed(path: Path) -> ast.Module:
    """CPython 3.11 counts the depth of its syntax trees once for all threads, and gives up when two build one at the same time."""
    for _ in range(100):
        with suppress(SystemError):
            return ast.parse(path.read_bytes(), str(path))
    raise AssertionError(f"{path} is never parsed alone")


def domain_modules() -> dict[str, ast.Module]:
    return {name: tree for name, tree in modules().items() if name.startswith("src/duly/domain/")}


@cache
def nodes(tree: ast.Module) -> Sequence[ast.AST]:
    """Every node of a tree, walked once for all rules."""
    return tuple(ast.walk(tree))


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything imported, inside functions too; a relative import keeps its dots."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, "." * node.level + f"{node.module or ''}.{alias.name}") for alias in node.names)


def dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value)}.{attr}"
        case _:
            return "…"


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in nodes(tree) if isinstance(node, ast.Call))


def project_files() -> Iterator[tuple[str, str]]:
    """Path and text of every file that is tracked or would be; binary files are left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in sorted(set(filter(None, listed.stdout.split("\0")))):
        path = ROOT / name
        if path == Path(__file__) or not path.is_file():
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def matches(pattern: re.Pattern[str], files: Iterator[tuple[str, str]]) -> list[str]:
    return [f"{name}:{text.count(chr(10), 0, hit.start()) + 1}: {hit.group()}" for name, text in files for hit in pattern.finditer(text)]


def test_the_domain_imports_neither_the_world_nor_a_third_party() -> None:
    offences = [
        f"{name}:{line}: {imported}"
        for name, tree in domain_modules().items()
        for line, imported in imports(tree)
        if (top := imported.split(".")[0]) in WORLDLY
        or (top == "duly" and not imported.startswith("duly.domain."))
        or (top != "duly" and top not in sys.stdlib_module_names and top not in LENT.get(name, ()))
    ]

    assert domain_modules()
    assert offences == []


def test_the_domain_never_reads_the_clock() -> None:
    offences = [
        f"{name}:{call.lineno}: {dotted(call.func)}()"
        for name, tree in domain_modules().items()
        for call in calls(tree)
        if isinstance(call.func, ast.Attribute) and call.func.attr in WALL_CLOCK
    ]

    assert offences == []


def test_what_is_simulated_asks_its_ports_for_time_chance_and_threads() -> None:
    simulated = {name: tree for name, tree in modules().items() if name.startswith(tuple(f"src/duly/{part}/" for part in REPEATABLE))}
    offences = [
        (name, f"{name}:{line}: {used}")
        for name, tree in simulated.items()
        for line, used in (
            *((line, imported) for line, imported in imports(tree) if imported.split(".")[0] in UNREPEATABLE),
            *((call.lineno, dotted(call.func)) for call in calls(tree) if dotted(call.func) in UNREPEATABLE_CALLS),
        )
    ]

    assert [offence for name, offence in offences if name not in NOT_SIMULATED] == []
    assert NOT_SIMULATED.keys() == {name for name, _ in offences}, "who needs no exception any more is not listed"


def test_nothing_is_pickled() -> None:
    offences = [
        f"{name}:{line}: {imported}"
        for name, tree in modules().items()
        for line, imported in imports(tree)
        if imported.split(".")[0] in UNSAFE_MODULES
    ]

    assert offences == []


def test_no_text_becomes_code_and_no_string_reaches_a_shell() -> None:
    offences = [
        f"{name}:{call.lineno}: {dotted(call.func)}"
        for name, tree in modules().items()
        for call in calls(tree)
        if (isinstance(call.func, ast.Name) and call.func.id in UNSAFE_BUILTINS)
        or dotted(call.func) in UNSAFE_CALLS
        or any(keyword.arg == "shell" and not is_false(keyword.value) for keyword in call.keywords if is_subprocess(call))
    ]

    assert offences == []


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def is_subprocess(call: ast.Call) -> bool:
    """Any call with a constant `shell=True`, and every call that goes to subprocess whatever it passes."""
    constant = any(keyword.arg == "shell" and isinstance(keyword.value, ast.Constant) for keyword in call.keywords)
    return constant or dotted(call.func).rsplit(".", 1)[-1] in {"Popen", "run", "call", "check_call", "check_output"}


def test_only_config_reads_the_environment() -> None:
    offences = [
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        if name != "src/duly/config/__init__.py"
        for node in nodes(tree)
        if (isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT and dotted(node.value) == "os")
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and any(alias.name in ENVIRONMENT for alias in node.names))
    ]

    assert offences == []


def test_every_module_is_about_one_thing() -> None:
    lengths = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in modules()}

    assert {name: length for name, length in lengths.items() if length > MODULE_LINES} == {}


def test_nothing_is_left_to_do_in_the_source() -> None:
    source = ((name, text) for name, text in project_files() if name.startswith("src/"))

    assert matches(re.compile(r"\b(?:TODO|FIXME)\b"), source) == []


def test_no_file_names_a_registry() -> None:
    assert matches(REGISTRY, project_files()) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert matches(MACHINE_PATH, project_files()) == []
