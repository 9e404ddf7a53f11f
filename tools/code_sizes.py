#!/usr/bin/env python3
"""Prints how long the files and functions of the tree are, beside the guide of good code in this field.

For information: it never fails. Functions of C++ are found by their braces: a definition is a `{` that follows a `)` at
namespace or class level. That misses nothing of the shapes this tree uses and needs no compiler.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("plugins", "transports", "algorithms", "core", "bindings", "tools", "examples")
# Raw strings, comments, literals, directives.
TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<!\w)'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
SCOPE = re.compile(r"\b(namespace|class|struct|union|extern)\b[^;{}()]*$|\bextern\s*$")


def blank(text):
    """Make comments, literals and directives blank, keeping lines."""
    return TOKENS.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def cpp_functions(text):
    """Find (line, length) of every function body by matching braces outside of other functions."""
    code, stack, functions, start = blank(text), [], [], 0
    inside = 0
    for place, character in enumerate(code):
        if character == "{":
            head = code[start:place].strip()
            is_function = not inside and ")" in head and not SCOPE.search(head) and not head.endswith("=")
            stack.append((place, is_function))
            inside += is_function
        elif character == "}" and stack:
            opened, is_function = stack.pop()
            inside -= is_function
            if is_function:
                functions.append((text.count("\n", 0, opened) + 1, text.count("\n", opened, place) + 1))
        if character in "{};":
            start = place + 1
    return functions


def python_functions(text):
    """Find (line, length) of every function."""
    nodes = ast.walk(ast.parse(text))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(node.lineno, node.end_lineno - node.lineno + 1) for node in nodes if isinstance(node, kinds)]


def files(folders, *suffixes):
    """List the files below the folders that end so."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)
    return sorted(path for path in found if "__pycache__" not in path.parts)


def quantile(values, share):
    """Return the value that `share` of all are not above; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0


def report(name, values, guide):
    """Print one line of the table; values are (where, length)."""
    lengths = [length for _, length in values]
    longest = max(values, key=lambda value: value[1], default=("", 0))
    figures = "".join(f"{quantile(lengths, share):7}" for share in (0.5, 0.9, 0.99))
    print(f"{name:18}{len(values):6}{figures}{longest[1]:7}  {guide:32} {longest[0]}")


def main():
    """Print the table."""

    def lengths(paths):
        return [(str(path.relative_to(ROOT)), path.read_text().count("\n")) for path in paths]

    def functions(paths, find):
        found = ((path.relative_to(ROOT), find(path.read_text())) for path in paths)
        return [(f"{path}:{line}", length) for path, lengths_at in found for line, length in lengths_at]

    cpp, headers, python = files(PRODUCT, ".cc", ".cpp", ".c"), files(PRODUCT, ".h", ".hpp"), files(PRODUCT, ".py")
    builds = [*(path for path in files((*PRODUCT, "tests"), ".build")), ROOT / "meson.build"]
    tests = files(("tests",), ".cc", ".h", ".py")
    print(f"{'':18}{'count':>6}{'p50':>7}{'p90':>7}{'p99':>7}{'max':>7}  {'guide':32} longest")
    report("C++ sources", lengths(cpp), "p50 120-190, p90 < 450")
    report("C++ headers", lengths(headers), "p50 60-110")
    report("Python files", lengths(python), "p50 120-190, p90 < 450")
    report("build files", lengths(builds), "p50 < 20")
    report("C++ functions", functions(cpp + headers, cpp_functions), "p50 5-8, p90 < 30, p99 < 80, max 120")
    report("Python functions", functions(python, python_functions), "p50 5-8, p90 < 30, p99 < 80, max 120")
    report("test files", lengths(tests), "")
    total = sum(length for _, length in lengths(cpp + headers + python))
    tested = sum(length for _, length in lengths(tests))
    print(f"lines: product {total}, tests {tested} ({tested / max(1, total):.2f} of the product; guide: at least 0.5)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
