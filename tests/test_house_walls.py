"""House rules of security, read off the syntax trees: what must not stand in the source, and who may do what nobody else may."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

import pytest

from tests.test_house import calls, dotted, imports, modules, nodes

SQL = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|TRUNCATE|PRAGMA|COPY|GRANT|SET|WITH|CALL|NOTIFY)\s", re.ASCII)

# Statements that are put together, each with the reason why nobody else's text can be in them.
BUILT_SQL = {
    "src/duly/adapters/clickhouse/columns.py": "columns and the table of our own",
    "src/duly/adapters/sql/engine_postgres.py": "the wall: a role of our own, and the number of a tenant",
    "src/duly/adapters/sql/engine_sqlite.py": "a number of our own",
    "src/duly/adapters/sql/migrate.py": "names of our own tables and schema",
    "src/duly/adapters/sql/postgres/lines.py": "settings of our own where a pooler takes none at the start, and a process's number",
    "src/duly/services/postgres.py": "databases of the servers that a test starts, by names of its own",
    "src/duly/verify/servers.py": "the same",
    "src/duly/verify/recording/__init__.py": "functions that the recording itself has made",
}
# Modules by name: what the operator wrote on the command line, and constants.
IMPORTERS = {
    "src/duly/__init__.py": "the public names, from a table",
    "src/duly/cli/application.py": "the application that the operator names on the command line",
    "src/duly/cli/completion.py": "the same commands, for what completes them",
    "src/duly/cli/main.py": "the commands, from a table",
    "src/duly/cli/parsing.py": "the rarer verbs of a noun, from the tables of commands",
    "src/duly/compose/__init__.py": "its own names, from a table",
    "src/duly/executors/child.py": "the same application, in a child process",
    "src/duly/services/available.py": "launchers of servers, from a table: some versions have fewer",
}
UNSAFE_MODULES = {"telnetlib", "ftplib", "xml", "imp", "crypt", "pty", "code", "codeop", "jsonpickle", "ruamel"}
UNSAFE_CALLS = {
    "tempfile.mktemp": "a name that somebody else may take first",
    "ssl._create_unverified_context": "no certificate is looked at",
    "hashlib.md5": "broken",
    "hashlib.sha1": "broken",
    "os.execvp": "a command outside the executors",
    "os.spawnl": "a command outside the executors",
    "compile": "text becomes code",
    "importlib.reload": "code changes under whoever runs",
    "sys.settrace": "frames have secrets in them",
}
UNSAFE_KEYWORDS = {"verify": False, "check_hostname": False, "preexec_fn": ..., "capture_locals": True, "show_locals": True}
UNSAFE_NAMES = {"CERT_NONE"}


def sql_in(node: ast.expr) -> bool:
    """Whether text begins as a statement does."""
    match node:
        case ast.Constant(value=str() as text):
            return bool(SQL.match(text))
        case ast.JoinedStr(values=[first, *_]):
            return sql_in(first)
        case ast.BinOp(left=left):
            return sql_in(left)
        case _:
            return False


def built_sql(tree: ast.Module) -> Iterator[int]:
    """Lines on which a statement is put together: f-strings with something in them, +, %, format, join and replace."""
    for node in nodes(tree):
        match node:
            case ast.JoinedStr(values=parts) if any(isinstance(part, ast.FormattedValue) for part in parts) and sql_in(node):
                yield node.lineno
            case ast.BinOp(left=left, op=ast.Add() | ast.Mod()) if sql_in(left):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=value, attr="format" | "join" | "replace" | "format_map")) if sql_in(value):
                yield node.lineno


def offences(found: Callable[[ast.Module], Iterator[int]]) -> dict[str, list[int]]:
    listed = {name: list(found(tree)) for name, tree in modules().items()}
    return {name: lines for name, lines in listed.items() if lines}


def test_statements_are_constants() -> None:
    found = offences(built_sql)

    assert found.keys() == BUILT_SQL.keys(), found


@pytest.mark.parametrize(
    "text",
    [
        'f"SELECT * FROM {table}"',
        '"SELECT * FROM " + table',
        '"DELETE FROM %s" % table',
        '"UPDATE {}".format(table)',
        'f"""\n  INSERT INTO {table}"""',
        '"SELECT " "1 FROM " + table',
    ],
)
def test_the_rule_sees_what_it_should(text: str) -> None:
    assert list(built_sql(ast.parse(text)))
    assert not list(built_sql(ast.parse('"SELECT 1"; f"SELECT 1"; f"Select {one}"; "SELECTED " + one')))


def test_only_a_few_import_by_name() -> None:
    by_name = ("import_module", "__import__", "run_module", "run_path")
    found = offences(lambda tree: (call.lineno for call in calls(tree) if dotted(call.func).rsplit(".", 1)[-1] in by_name))

    assert found.keys() == IMPORTERS.keys(), found


def test_nothing_unsafe_is_called() -> None:
    def found(tree: ast.Module) -> Iterator[int]:
        for call in calls(tree):
            name = dotted(call.func)
            if name in UNSAFE_CALLS:
                yield call.lineno
            for keyword in call.keywords:
                if keyword.arg in UNSAFE_KEYWORDS:
                    unsafe = UNSAFE_KEYWORDS[keyword.arg]
                    if unsafe is ... or (isinstance(keyword.value, ast.Constant) and keyword.value.value is unsafe):
                        yield call.lineno
        for node in nodes(tree):
            if isinstance(node, ast.Attribute) and node.attr in UNSAFE_NAMES:
                yield node.lineno

    assert offences(found) == {}


def test_nothing_unsafe_is_imported() -> None:
    def found(tree: ast.Module) -> Iterator[int]:
        return (line for line, imported in imports(tree) if imported.split(".")[0] in UNSAFE_MODULES)

    assert offences(found) == {}


def test_yaml_is_read_as_plain_values_only() -> None:
    def found(tree: ast.Module) -> Iterator[int]:
        for node in nodes(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "yaml":
                yield node.lineno
            if isinstance(node, ast.Attribute) and dotted(node).startswith("yaml.") and node.attr not in ("safe_load_all", "YAMLError"):
                yield node.lineno

    assert offences(found) == {}


def test_commands_are_lists() -> None:
    """A string as a command would be split by somebody's rules, or run by a shell."""

    def found(tree: ast.Module) -> Iterator[int]:
        for call in calls(tree):
            if (
                dotted(call.func).startswith("subprocess.")
                and call.args
                and isinstance(call.args[0], ast.Constant | ast.JoinedStr | ast.BinOp)
            ):
                yield call.lineno

    assert offences(found) == {}


def test_only_the_vault_reads_secrets_and_only_the_cipher_encrypts() -> None:
    readers = {name for name, tree in modules().items() if any(imported.startswith("cryptography") for _, imported in imports(tree))}
    users = {
        name
        for name, tree in modules().items()
        for node in nodes(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("secrets_env", "secrets_dir") and not name.startswith("src/duly/config/")
    }

    assert readers == {"src/duly/adapters/sealed/cipher.py"}
    # For what a worker runs, and for the channels that a server tells.
    assert users == {"src/duly/compose/work.py", "src/duly/compose/notices.py"}
