"""The shape of the code: which way imports point, what the daemon never loads, and the size of things.

Reads the sources as text and runs none of them.
"""

import ast
import graphlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("memory", "reflection", "updater", "agent")
"""Each may import itself and what stands before it."""

HEAVY = frozenset({"torch", "sklearn", "transformers", "sentence_transformers", "peft", "accelerate", "gguf"})
"""What only children load: it would triple the daemon's memory and its time to start."""
DAEMON_ROOTS = ("agent.daemon", "agent.cli.main")

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_POSITIONAL = 5
MAX_NESTING = 3

BROAD_EXCEPT_HOMES = {
    "agent/api/app.py": "the edge turns any fault into a status code",
    "agent/passes.py": "a background pass that fails is recorded, and the daemon lives on",
}
WIDER_THAN_THE_BAND: dict[str, str] = {}
"""`path:function` -> why that piece of code would be worse within the band."""

_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.Match)
"""What makes a reader keep two paths in mind; a `with` does not."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def _modules() -> dict[str, Path]:
    """Dotted name -> file, of the four packages."""
    files = [path for layer in LAYERS for path in (ROOT / layer).rglob("*.py")]
    return {_dotted(path): path for path in files}


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(node: ast.AST) -> Iterator[str]:
    """Dotted names that are imported anywhere below `node`; `from a import b` gives a.b where that is a module."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            for alias in child.names:
                name = f"{child.module}.{alias.name}"
                yield name if name in _modules() else str(child.module)


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(_tree(path)) if isinstance(node, _FUNCTIONS))


def _nesting(node: ast.AST) -> int:
    """How deep blocks lie in blocks below `node`; an elif lies no deeper than its if."""
    deepest = 0
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, _FUNCTIONS):
                continue
            is_elif = isinstance(node, ast.If) and name == "orelse" and isinstance(child, ast.If)
            deepest = max(deepest, _nesting(child) + (isinstance(child, _BLOCKS) and not is_elif))
    return deepest


def _site(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return f"{path.relative_to(ROOT)}:{node.name}"


def test_imports_point_left() -> None:
    """No package imports one that stands to the right of it."""
    wrong = [
        f"{name} imports {imported}"
        for name, path in _modules().items()
        for imported in _imports(_tree(path))
        if imported.split(".")[0] in LAYERS and LAYERS.index(imported.split(".")[0]) > LAYERS.index(name.split(".")[0])
    ]
    assert wrong == []


def test_no_import_cycles() -> None:
    """The modules can be put into an order in which each imports only what stands before it."""
    graph = {name: {one for one in _imports(_tree(path)) if one in _modules()} for name, path in _modules().items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as problem:
        pytest.fail(f"import cycle: {' -> '.join(problem.args[1])}")


def test_no_first_party_import_inside_a_function() -> None:
    """What a module needs of ours stands at its top."""
    wrong = [
        f"{_site(path, function)} imports {imported}"
        for path in _modules().values()
        for function in _functions(path)
        for imported in _imports(function)
        if imported.split(".")[0] in LAYERS
    ]
    assert wrong == []


def test_package_files_hold_a_docstring_only() -> None:
    """An __init__.py says what its package is and does nothing."""
    for path in _modules().values():
        if path.name == "__init__.py":
            body = _tree(path).body
            assert len(body) <= 1, path
            assert ast.get_docstring(_tree(path)), path


def test_every_module_says_what_it_is() -> None:
    """Each module begins with a docstring."""
    assert [name for name, path in _modules().items() if not ast.get_docstring(_tree(path))] == []


def test_the_daemon_reaches_no_heavy_library() -> None:
    """From the daemon and the command line no chain of imports leads to torch or its kind."""
    reached: dict[str, str] = {}
    waiting = [(root, root) for root in DAEMON_ROOTS if root in _modules()]
    while waiting:
        name, chain = waiting.pop()
        if name in reached:
            continue
        reached[name] = chain
        for imported in _imports(_tree(_modules()[name])):
            assert imported.split(".")[0] not in HEAVY, f"{chain} -> {imported}"
            if imported in _modules():
                waiting.append((imported, f"{chain} -> {imported}"))
    assert reached


def test_only_the_command_line_imports_the_demonstration() -> None:
    """What the demonstration knows, such as what counts as short, stays with it."""
    wrong = [
        name
        for name, path in _modules().items()
        if not name.startswith(("agent.demo", "agent.cli"))
        and any(imported.startswith("agent.demo") for imported in _imports(_tree(path)))
    ]
    assert wrong == []


def test_broad_excepts_stay_at_home() -> None:
    """Everything is caught in two places only; elsewhere errors propagate."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _modules().values()
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}))
        and not isinstance(node.body[-1], ast.Raise)  # what is raised again is not caught
        and str(path.relative_to(ROOT)) not in BROAD_EXCEPT_HOMES
    ]
    assert wrong == []


def test_files_are_short() -> None:
    """No file is longer than a reader can hold."""
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in _modules().values()}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_functions_are_small() -> None:
    """Functions stay within their bands of length, parameters and nesting; what does not says why."""
    wrong = []
    for path in _modules().values():
        for function in _functions(path):
            length = (function.end_lineno or 0) - function.lineno + 1
            names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
            positional = len([name for name in names if name not in {"self", "cls"}])
            nesting = _nesting(function)
            over = length > MAX_FUNCTION_LINES or positional > MAX_POSITIONAL or nesting > MAX_NESTING
            if over and _site(path, function) not in WIDER_THAN_THE_BAND:
                wrong.append(f"{_site(path, function)}: {length} lines, {positional} positional, nesting {nesting}")
    assert wrong == []
