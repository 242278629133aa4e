"""``kanalyze completion``: the script that completes arguments in a shell.

In: the parser of all commands. Out: a script for bash, zsh or fish, by shtab.

The script has all words, so a completion starts no process. (With argcomplete it would be one of
0.13 s of CPU for each press of the key.)
"""

from __future__ import annotations

import argparse
import sys

import shtab

from kanalyze.cli.arguments import parser
from kanalyze.spec.commands import COMMANDS

_BASH_JOINED = """
# --format=csv is three words for bash, and two for what follows.
_kanalyze() {
    local word words=() last=$((COMP_CWORD)) index
    for ((index = 0; index <= last; index++)); do
        word=${COMP_WORDS[index]}
        if [[ $word == '=' && $index -lt $last ]]; then continue; fi
        words+=("${word#=}")
    done
    COMP_WORDS=("${words[@]}")
    COMP_CWORD=$((${#words[@]} - 1))
    _shtab_kanalyze
}
complete -o bashdefault -F _kanalyze kanalyze
"""


def completion(arguments: argparse.Namespace) -> None:
    """Write the script for a shell to standard output."""
    sys.stdout.write(script_for(arguments.shell))


def script_for(shell: str) -> str:
    """Return the script for ``bash``, ``zsh`` or ``fish``."""
    script = shtab.complete(_with_files(parser()), shell)
    return script + (_BASH_JOINED if shell == "bash" else "")


def _with_files(program: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return the parser with the parsers of all commands, which say what values are files."""
    [commands] = [
        action for action in program._actions if isinstance(action, argparse._SubParsersAction)
    ]
    for name, command in commands.choices.items():
        commands.choices[name] = command.parser
        files = {option.name for option in COMMANDS[name].options if option.is_file}
        for action in command.parser._actions:
            if action.dest in files:
                action.complete = shtab.FILE  # shtab reads it
    return program
