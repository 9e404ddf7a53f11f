"""What docstrings of the package have to tell: all parameters where they tell any, and the errors that are raised."""

import ast
import re

import arrows
import pytest


def functions_of(body, path=""):
    """Yield the public functions of a module, and its classes with their constructors: name, docstring, function."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            yield from functions_of([*node.body, *node.orelse], path)
        elif getattr(node, "name", "_").startswith("_"):
            continue
        elif isinstance(node, ast.FunctionDef):
            yield f"{path}{node.name}", ast.get_docstring(node) or "", node
        elif isinstance(node, ast.ClassDef):
            made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            yield from ((f"{path}{node.name}", ast.get_docstring(node) or "", each) for each in made)
            yield from functions_of(node.body, f"{path}{node.name}.")


def inner(node):
    """Yield what is in a function, without the functions and classes in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield child
            yield from inner(child)


def untold(text):
    """Return what the docstrings of a module leave out that have a section Parameters."""
    found = []
    for name, doc, function in functions_of(ast.parse(text).body):
        if "Parameters\n---" not in doc:
            continue
        arguments = [each.arg for each in [*function.args.args, *function.args.kwonlyargs] if each.arg[0] != "_"]
        errors = [getattr(each.exc, "func", None) for each in inner(function) if isinstance(each, ast.Raise)]
        names = {each.id for each in errors if isinstance(each, ast.Name) and each.id[0].isupper()}
        if any("raises" in ast.unparse(each) for each in function.decorator_list):  # which adds that section
            names = set()
        wanted = {*arguments, *names} - {"self", "cls"}
        found += [f"{name}: {each}" for each in sorted(wanted) if not re.search(rf"\b{each}\b", doc)]
    return found


def test_docstrings_name_parameters_and_errors():
    paths = arrows.sources("bindings/python", suffixes={".py"})
    assert [f"{path}: {each}" for path in paths for each in untold((arrows.ROOT / path).read_text())] == []


@pytest.mark.parametrize("doc", ["one : int", "two : int", "one, two : int"])
def test_what_is_left_out_is_noticed(doc):
    text = f'''def both(one, *, two=2):
    """Add.

    Parameters
    ----------
    {doc}
    """
    if two:
        raise ValueError("two")'''
    missing = {"one : int": ["both: two"], "two : int": ["both: one"]}.get(doc, [])
    assert untold(text) == ["both: ValueError", *missing]
