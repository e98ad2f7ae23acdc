"""`duly completion bash|zsh|fish|pwsh`: a script that completes commands, verbs and options.

It is made from the tree itself and asks nobody when it completes, so a Tab costs nothing. Make it anew after an upgrade.
"""

from __future__ import annotations

from importlib import import_module

from duly.cli.errors import OK
from duly.cli.main import TREE
from duly.cli.parsing import Arguments, Command, Parser, Tree

SHELLS = ("bash", "zsh", "fish", "pwsh")


def words_after() -> dict[str, list[str]]:
    """What may follow each beginning of a command line: verbs and options by path, such as `job` and `job list`."""
    found: dict[str, list[str]] = {"": [name for _, commands in TREE for name, _, _ in commands]}
    for _, commands in TREE:
        for name, module, _ in commands:
            tree: Tree = import_module(f"duly.cli.{module}").COMMANDS[name]
            if isinstance(tree, Command):
                found[name] = options_of(tree)
                continue
            own = options_of(tree.otherwise) if tree.otherwise is not None else []
            found[name] = [*tree.commands, *own]
            for verb, command in tree.commands.items():
                found[f"{name} {verb}"] = options_of(command)
    return found


def options_of(command: Command) -> list[str]:
    """The long options of a command, and what its first argument may be where that is a choice."""
    parser = command.parser()
    choices = [str(one) for action in parser.arguments for one in action.choices or ()]
    names = [option for action in parser.told_options for option in action.option_strings]
    return [*choices, *sorted(option for option in names if option.startswith("--"))]


def _bash() -> str:
    cases = "\n".join(f"    '{path}') words='{' '.join(words)}' ;;" for path, words in words_after().items())
    return f"""# Duly's completion for bash: source <(duly completion bash)
_duly() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" path="" words="" one
  local -a before=("${{COMP_WORDS[@]:1:COMP_CWORD-1}}")
  for one in "${{before[@]}}"; do
    case "$one" in -*) continue ;; esac
    [ -z "$path" ] && path="$one" || {{ path="$path $one"; break; }}
  done
  _duly_words "$path" || _duly_words "${{path%% *}}"
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
_duly_words() {{
  case "$1" in
{cases}
    *) return 1 ;;
  esac
}}
complete -o default -F _duly duly
"""


def _zsh() -> str:
    return "#compdef duly\nautoload -U +X bashcompinit && bashcompinit\n" + _bash()


def _fish() -> str:
    lines = ["# Duly's completion for fish: duly completion fish > ~/.config/fish/completions/duly.fish", "complete -c duly -f"]
    summaries = {name: summary for _, commands in TREE for name, _, summary in commands}
    for path, words in words_after().items():
        first, _, verb = path.partition(" ")
        condition = "__fish_use_subcommand" if not path else f"__fish_seen_subcommand_from {first}"
        if verb:
            condition += f"; and __fish_seen_subcommand_from {verb}"
        for word in words:
            what = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            summary = summaries.get(word, "").replace("'", "\\'") if not path else ""
            lines.append(f"complete -c duly -n '{condition}' {what}" + (f" -d '{summary}'" if summary else ""))
    return "\n".join(lines) + "\n"


def _pwsh() -> str:
    rows = "\n".join(f"    '{path}' = '{' '.join(words)}'" for path, words in words_after().items())
    return f"""# Duly's completion for PowerShell: duly completion pwsh | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName duly -ScriptBlock {{
  param($word, $line, $cursor)
  $words = @{{
{rows}
  }}
  $before = @($line.CommandElements | Select-Object -Skip 1 | Where-Object {{ $_.Extent.EndOffset -lt $cursor }} |
    ForEach-Object {{ $_.ToString() }} | Where-Object {{ -not $_.StartsWith('-') }} | Select-Object -First 2)
  $path = $before -join ' '
  if (-not $words.ContainsKey($path)) {{ $path = $before[0] }}
  "$($words[$path])".Split(' ') | Where-Object {{ $_ -and $_.StartsWith($word) }} |
    ForEach-Object {{ [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_) }}
}}
"""


def _configure(parser: Parser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh, fish or pwsh (PowerShell)")


def _completion(arguments: Arguments) -> int:
    print({"bash": _bash, "zsh": _zsh, "fish": _fish, "pwsh": _pwsh}[arguments.shell](), end="")
    return OK


_EXAMPLES = """
examples:
  source <(duly completion bash)                                        in ~/.bashrc
  duly completion zsh > "${fpath[1]}/_duly"
  duly completion fish > ~/.config/fish/completions/duly.fish
  duly completion pwsh | Out-String | Invoke-Expression                 in $PROFILE
"""

COMMANDS = {"completion": Command("What your shell needs to complete commands.", _configure, _completion, "duly completion", _EXAMPLES)}
