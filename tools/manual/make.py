#!/usr/bin/env python3
"""Writes a program's manual page and its completion for bash and zsh, both made of what the program's --help prints.

usage: make.py FOLDER VERSION NAME COMMAND...
"""

import os
import re
import string
import subprocess
import sys
from pathlib import Path

USAGE = re.compile(r"^usage: (.*(?:\n {6,}\S.*)*)\n?", re.IGNORECASE | re.MULTILINE)
HEADER = re.compile(r"^([A-Za-z][\w -]{0,30}):$")
ITEM = re.compile(r"^  (\S.*?)(?: {2,}(\S.*))?$")
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
CHOICES = re.compile(r"\{([\w,]+)\}")

# What zsh's bashcompinit understands, too: it has no mapfile, and a `type` of its own.
COMPLETION = string.Template("""\
_$function() {
  local word=$${COMP_WORDS[COMP_CWORD]}
$until_command  case $${COMP_WORDS[COMP_CWORD - 1]} in
$cases    *) $words ;;
  esac
}
complete -o default -F _$function $name
""")
# For a program that runs another: its own options end where the other's name stands.
UNTIL_COMMAND = string.Template("""\
  local values=" $values " i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ $$values == *" $${COMP_WORDS[i]} "* ]]; then
      ((++i))
    elif [[ $${COMP_WORDS[i]} != -* ]]; then
      [[ $$(type -t _command_offset 2>/dev/null) != function ]] || _command_offset "$$i"
      return
    fi
  done
""")


class Help:
    """The parts of a --help: usage, sections of (head, text) with their titles, and the text outside of them."""

    def __init__(self, printed: str) -> None:
        found = USAGE.search(printed)
        self.usage = re.sub(r"\s*\n\s*", "\n", found.group(1)) if found else ""
        rest = USAGE.sub("\n", printed, count=1)
        self.paragraphs: list[str] = [""]
        self.sections: list[tuple[str, list[list[str]]]] = []
        inside = False
        for line in rest.splitlines():
            header, item = HEADER.match(line), ITEM.match(line)
            if header:
                inside = True
                self.sections.append((header.group(1), []))
            elif inside and item and not line.startswith("   "):
                self.sections[-1][1].append([item.group(1), item.group(2) or ""])
            elif inside and line.startswith("   ") and self.sections[-1][1]:
                entry = self.sections[-1][1][-1]
                entry[1] = f"{entry[1]} {line.strip()}".strip()
            elif line.strip():
                inside = False
                self.paragraphs[-1] = f"{self.paragraphs[-1]} {line.strip()}".strip()
            elif self.paragraphs[-1]:
                self.paragraphs.append("")
        self.paragraphs = [text for text in self.paragraphs if text]

    def heads(self) -> list[str]:
        """Return what stands before the texts: options with their values; no examples."""
        return [head for title, entries in self.sections if title != "examples" for head, _ in entries]


def escaped(text: str) -> str:
    """Return a text whose backslashes, hyphens and leading dots mean themselves to roff."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


def page(name: str, version: str, parts: Help) -> str:
    """Return the manual page."""
    about = " ".join(parts.paragraphs[:1])
    summary = about.split(". ")[0].rstrip(".")
    lines = [f'.TH {name.upper()} 1 "" "Roda {version}"', ".SH NAME", f"{name} \\- {escaped(summary)}", ".SH SYNOPSIS"]
    for number, line in enumerate(parts.usage.splitlines()):
        lines += [".br"] * (number > 0 and name in line) + [escaped(line)]
    lines.append(".SH DESCRIPTION")
    for text in parts.paragraphs:
        lines += [".PP", escaped(text)]
    for title, entries in parts.sections:
        lines.append(f".SH {escaped(title.upper())}")
        for head, text in entries:
            lines += [".TP", rf"\fB{escaped(head)}\fR", escaped(text)]
    return "\n".join(lines) + "\n"


def offer(words: list[str]) -> str:
    """Return the command that offers those of the words that begin as the user's does."""
    return f'COMPREPLY=($(compgen -W "{" ".join(dict.fromkeys(words))}" -- "$word"))'


def completion(name: str, parts: Help) -> str:
    """Return the function that the shell calls, and the line that tells it so."""
    options, values, cases = [], [], ""
    for head in parts.heads() or parts.usage.splitlines():
        names, choices = OPTION.findall(head), CHOICES.search(head)
        words = choices.group(1).split(",") if choices else []
        options += names or words
        if names and re.search(r"[ =:][A-Z{]", head):
            values += names
        if names and words:
            cases += f"    {' | '.join(names)}) {offer(words)} ;;\n"
    runs_commands = parts.usage.endswith("...")
    return COMPLETION.substitute(
        name=name,
        function=name.replace("-", "_"),
        until_command=UNTIL_COMMAND.substitute(values=" ".join(dict.fromkeys(values))) if runs_commands else "",
        words=offer(options),
        cases=cases,
    )


def main() -> None:
    """Run the program and write both files."""
    folder, version, name, *command = sys.argv[1:]
    # Nothing of the machine that builds: neither the width of its terminal nor the home of its user.
    environment = {**os.environ, "COLUMNS": "160", "HOME": "$HOME", "XDG_DATA_HOME": "", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*command, "--help"], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0 or "usage" not in done.stdout.lower():
        sys.exit(f"{name} --help ended with {done.returncode}: {done.stderr.strip()}")
    parts = Help(done.stdout)
    Path(folder, f"{name}.1").write_text(page(name, version, parts), encoding="utf-8")
    Path(folder, name).write_text(completion(name, parts), encoding="utf-8")


if __name__ == "__main__":
    main()
