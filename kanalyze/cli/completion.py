"""``kanalyze completion``: the script that completes arguments in a shell.

In: the declarations of commands. Out: a script for bash, zsh or fish.

The script has all words, so a completion starts no process. (With argcomplete it would be one of
0.13 s of CPU for each press of the key.)
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from kanalyze.spec.commands import COMMANDS
from kanalyze.spec.options import Option

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

__all__ = ["completion", "script_for"]

_LONGEST_HELP = 70
_not_plain = re.compile(r"[^A-Za-z0-9 .,;()/_+=<>-]+")
"""Characters that may have a meaning in a shell; they are left out of help texts."""


_HELP = Option("-h, --help", "show this help message and exit")


class _Command:
    """A command, with its options and positional arguments."""

    def __init__(self, name: str) -> None:
        command = COMMANDS[name]
        self.name = name
        self.text = _plain(command.text)
        self.options = [_HELP, *(each for each in command.options if each.flags)]
        arguments = [each for each in command.options if not each.flags]
        self.takes_files = any(each.is_file for each in arguments)
        self.words = [word for each in arguments for word in each.choices or ()]
        """The possible values of arguments; empty if they may have any value."""


def completion(arguments: argparse.Namespace) -> None:
    """Write the script for a shell to standard output."""
    sys.stdout.write(script_for(arguments.shell))


def script_for(shell: str) -> str:
    """Return the script for ``bash``, ``zsh`` or ``fish``."""
    commands = [_Command(name) for name in COMMANDS]
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)


def _plain(text: str) -> str:
    """Return the beginning of a help text in characters that no shell interprets."""
    plain = " ".join(_not_plain.sub(" ", text).split())
    return plain if len(plain) <= _LONGEST_HELP else plain[:_LONGEST_HELP].rpartition(" ")[0]


def _names(options: Iterable[Option]) -> list[str]:
    return [name for option in options for name in option.flags]


# -- bash -----------------------------------------------------------------------------------------


def _bash(commands: Sequence[_Command]) -> str:
    # Bash 3.2, which macOS has, knows neither compopt nor mapfile.
    names = [command.name for command in commands]
    words = [
        f"        {command.name}) words='{' '.join([*_names(command.options), *command.words])}' ;;"
        for command in commands
    ]
    files = "|".join(command.name for command in commands if command.takes_files)
    return f"""\
# bash completion of kanalyze
_kanalyze() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command='' words='' index
    # --format=csv is three words.
    if [[ $word == '=' ]]; then word=''; fi
    if [[ $before == '=' && $COMP_CWORD -gt 1 ]]; then before=${{COMP_WORDS[COMP_CWORD-2]}}; fi
    for ((index = 1; index < COMP_CWORD; index++)); do
        case ${{COMP_WORDS[index]}} in
        {"|".join(names)}) command=${{COMP_WORDS[index]}}; break ;;
        esac
    done
    local IFS=$' \\t\\n'
    case "$command $before" in
{_bash_values(commands)}
    esac
    case $command in
        '') words='--help --version {" ".join(names)}' ;;
{chr(10).join(words)}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    case $command in
        {files})
            if [[ $word != -* ]]; then
                IFS=$'\\n'
                COMPREPLY=($(compgen -f -- "$word"))
            fi ;;
    esac
}}
complete -o filenames -F _kanalyze kanalyze
"""


def _bash_values(commands: Sequence[_Command]) -> str:
    """Return the cases of options with a value."""
    lines = []
    file_options, word_options = [], []
    for command in commands:
        for option in command.options:
            patterns = [f'"{command.name} {name}"' for name in option.flags]
            if option.choices:
                words = f"compgen -W '{' '.join(option.choices)}' -- \"$word\""
                lines.append(f"        {'|'.join(patterns)}) COMPREPLY=($({words})); return ;;")
            elif option.is_file:
                file_options += patterns
            elif option.value is not None:
                word_options += patterns
    lines.append(f"        {'|'.join(file_options)}) IFS=$'\\n'")
    lines.append('            COMPREPLY=($(compgen -f -- "$word")); return ;;')
    lines.append(f"        {'|'.join(word_options)}) COMPREPLY=(); return ;;")
    return "\n".join(lines)


# -- zsh ------------------------------------------------------------------------------------------


def _zsh(commands: Sequence[_Command]) -> str:
    described = "\n".join(f"            '{command.name}:{command.text}'" for command in commands)
    cases = "\n".join(_zsh_command(command) for command in commands)
    return f"""\
#compdef kanalyze
_kanalyze() {{
    local curcontext="$curcontext" state line
    local -a commands
    _arguments -C '(- *)'{{-h,--help}}'[show help]' '(- *)--version[show the version]' \\
        '1:command:->command' '*::argument:->argument'
    case $state in
    command)
        commands=(
{described}
        )
        _describe command commands ;;
    argument)
        case $line[1] in
{cases}
        esac ;;
    esac
}}
if [ "$funcstack[1]" = _kanalyze ]; then
    _kanalyze "$@"
else
    compdef _kanalyze kanalyze
fi
"""


def _zsh_command(command: _Command) -> str:
    specs = [
        f"'*{name}[{_plain(o.help)}]{_zsh_value(o)}'" for o in command.options for name in o.flags
    ]
    if command.takes_files:
        specs.append("'*:file:_files'")
    elif command.words:
        specs.append(f"'*:word:({' '.join(command.words)})'")
    lines = " \\\n                ".join(["_arguments", *specs])
    return f"        {command.name})\n            {lines} ;;"


def _zsh_value(option: Option) -> str:
    return _value(option, ":value:({})", ":file:_files", ":value: ")


def _value(option: Option, of_choices: str, of_file: str, of_any: str) -> str:
    """Return what says of which kind the value of an option is; empty if it has none."""
    if option.value is None:
        return ""
    if option.choices:
        return of_choices.format(" ".join(option.choices))
    return of_file if option.is_file else of_any


# -- fish -----------------------------------------------------------------------------------------


def _fish(commands: Sequence[_Command]) -> str:
    lines = ["# fish completion of kanalyze", "complete -c kanalyze -f"]
    at_first = "complete -c kanalyze -n __fish_use_subcommand"
    lines += [f"{at_first} -l help -s h", f"{at_first} -l version"]
    for command in commands:
        lines.append(f"{at_first} -a {command.name} -d '{command.text}'")
    for command in commands:
        of_command = f"complete -c kanalyze -n '__fish_seen_subcommand_from {command.name}'"
        if command.takes_files:
            lines.append(f"{of_command} -F")
        elif command.words:
            lines.append(f"{of_command} -a '{' '.join(command.words)}'")
        for option in command.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.flags
            )
            lines.append(f"{of_command} {names}{_fish_value(option)} -d '{_plain(option.help)}'")
    return "\n".join(lines) + "\n"


def _fish_value(option: Option) -> str:
    return _value(option, " -x -a '{}'", " -r -F", " -x")
