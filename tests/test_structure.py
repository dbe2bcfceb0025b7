"""The shape of the code, held by tests so that it is still true in a year.

Import directions are held by import-linter (pyproject.toml); this is the rest: sizes, docstrings,
and the few things that may happen in one place only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "olp").rglob("*.py"))
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 40

LONG_FILES: dict[str, str] = {}
"""Files that may be longer, and why."""

BROAD_EXCEPT = ("olp/server/", "olp/runtime/tasks.py")
TASKS = ("olp/runtime/tasks.py",)
PROCESSES = ("olp/runtime/process/child.py",)
STARTERS = {"create_subprocess_exec", "create_subprocess_shell", "subprocess_exec"}
OS_STARTERS = {f"os.{name}" for name in ("system", "popen", "fork", "forkpty", "posix_spawn")}
MUTATORS = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem"}
MUTATORS |= {"remove", "discard", "clear", "sort", "reverse"}


def name_of(module: Path) -> str:
    """The module's path from the root."""
    return module.relative_to(ROOT).as_posix()


def tree_of(module: Path) -> ast.Module:
    """The module, parsed."""
    return ast.parse(module.read_text("utf-8"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function in it, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def places(wanted: object, allowed: tuple[str, ...] = ()) -> list[str]:
    """Where `wanted(node)` is true, outside the files that may."""
    return [
        f"{name_of(module)}:{getattr(node, 'lineno', 0)}"
        for module in MODULES
        if not name_of(module).startswith(allowed or "\0")
        for node in ast.walk(tree_of(module))
        if callable(wanted) and wanted(node)
    ]


def test_there_is_something_to_look_at() -> None:
    assert len(MODULES) > 40


def test_no_file_is_long() -> None:
    lines = {name_of(module): module.read_text("utf-8").count("\n") for module in MODULES}
    long = {name: count for name, count in lines.items() if count > MAX_FILE_LINES}
    assert {n: c for n, c in long.items() if n not in LONG_FILES} == {}
    assert [name for name in LONG_FILES if name not in long] == [], "no longer an exception"


def test_no_function_is_long() -> None:
    long = {}
    for module in MODULES:
        for node in functions(tree_of(module)):
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            if count > MAX_FUNCTION_LINES:
                long[f"{name_of(module)}:{node.name}"] = count
    assert long == {}


def test_every_module_says_why_it_exists() -> None:
    silent = [name_of(module) for module in MODULES if not ast.get_docstring(tree_of(module))]
    assert silent == []


def test_only_the_edge_and_the_task_wrapper_catch_everything() -> None:
    def catches_all(node: ast.AST) -> bool:
        if not isinstance(node, ast.ExceptHandler):
            return False
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        return any(kind is None or ast.unparse(kind) == "Exception" for kind in kinds)

    assert places(catches_all, BROAD_EXCEPT) == []


def test_whoever_catches_even_a_cancellation_raises_it_again() -> None:
    def swallows(node: ast.AST) -> bool:
        if not isinstance(node, ast.ExceptHandler) or node.type is None:
            return False
        raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
        return ast.unparse(node.type) == "BaseException" and not raises

    assert places(swallows) == []


def test_tasks_begin_in_one_place() -> None:
    def begins(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in ("create_task", "TaskGroup")

    assert places(begins, TASKS) == []


def test_processes_begin_in_one_module() -> None:
    def begins(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in STARTERS or ast.unparse(node) in OS_STARTERS
        names = [alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)]
        module = node.module if isinstance(node, ast.ImportFrom) else ""
        return module == "subprocess" or "subprocess" in names

    assert places(begins, PROCESSES) == []


def test_no_module_keeps_state() -> None:
    """A heuristic: nobody rebinds a module's name, or changes what a module's name holds."""
    found = []
    for module in MODULES:
        tree = tree_of(module)
        held = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        }
        found += [f"{name_of(module)}:{line}" for line in changes(tree, held)]
    assert found == []


def changes(tree: ast.Module, held: set[str]) -> Iterator[int]:
    """The lines inside functions in which something named in `held` is changed."""
    for function in functions(tree):
        own = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
        own |= {
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Global) or changed(node) in held - own:
                yield getattr(node, "lineno", 0)


def changed(node: ast.AST) -> str | None:
    """The name of what `node` changes in place, if it does."""
    target: ast.AST | None = None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        target = node.func.value if node.func.attr in MUTATORS else None
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        target = node.value
    return target.id if isinstance(target, ast.Name) else None


def test_no_test_of_this_file_is_blind() -> None:
    tree = ast.parse("KEPT = {}\ndef f():\n    KEPT['a'] = 1\ndef g(KEPT):\n    KEPT['a'] = 1\n")
    assert list(changes(tree, {"KEPT"})) == [3]


MACHINE_PATHS = re.compile(r"/work/|/root/")
"""Paths of the machines on which this was written. An example's `/home/anna` is nobody's."""

NAMES_THEM = ("test_structure.py", "test_docs.py")
"""The files that look for such paths."""

UNREAD = {".git", ".venv", "__pycache__", "transcripts", "build", "dist", "node_modules"}


def texts() -> list[Path]:
    """The files of the repository that people read."""
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not (UNREAD | {".hypothesis"}) & set(path.relative_to(ROOT).parts)
        and not any("cache" in part for part in path.relative_to(ROOT).parts)
        and (
            path.suffix in (".py", ".md", ".toml", ".sh") or path.parent.name in ("scripts", ".ci")
        )
        and path.name not in NAMES_THEM
    ]


def test_no_file_names_somebodys_machine() -> None:
    named = [
        f"{name_of(path)}:{number}"
        for path in texts()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert named == []
