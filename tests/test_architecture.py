"""Who may import whom, and what no module may be: held here, read from the source with ast."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "tideglass"

#: Package -> the packages it may import besides itself, each after those it imports: nothing imports back.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "storage": {"core"},
    "lang": {"core"},
    "functions": {"core"},
    "plan": {"core", "functions"},
    "bind": {"core", "lang", "functions", "plan"},
    "connect": {"core", "storage"},
    "evaluate": {"core", "functions", "plan"},
    "operators": {"core", "functions", "plan"},
    "engine": {"core", "storage", "functions", "plan", "connect", "evaluate", "operators"},
    "ingress": {"core", "storage", "plan", "connect", "evaluate", "operators", "engine"},
    "local": {"core", "storage", "plan", "connect", "operators", "engine", "ingress"},
    "spark": {"core", "storage", "plan", "connect", "operators", "engine", "ingress", "local"},
    "project": {"core", "storage", "functions", "plan", "bind", "connect"},
    "compile": {"core", "lang", "functions", "plan", "bind", "project"},
    "job": {"core", "storage", "plan", "bind", "compile", "connect", "engine", "ingress", "spark", "project"},
    "telemetry": {"core", "storage", "spark", "job"},
    "simulate": {"core", "storage", "plan", "connect", "evaluate", "ingress", "project", "job"},
    "api": {"storage", "project", "job", "telemetry"},
    "terminal": {"core", "storage", "job"},
    "dataframes": {"core", "storage", "plan", "bind", "compile", "spark", "project", "job"},
    "testing": {"core", "storage", "plan", "bind", "compile", "connect", "local", "spark", "project"},
    "play": {"core", "storage", "plan", "bind", "compile", "connect", "engine", "ingress", "local", "project"}
    | {"job", "simulate"},
    "page": {"core", "storage", "job", "telemetry", "play"},
    "cli": {"core", "storage", "lang", "plan", "bind", "compile", "connect", "evaluate", "spark", "project"}
    | {"job", "telemetry", "play", "page", "terminal", "simulate", "testing"},
}

#: Packages of others -> the layers that may use them.
MAY_USE = {
    "pyspark": {"spark"},
    "py4j": {"spark"},
    "duckdb": {"core", "functions", "operators", "evaluate", "connect"},
    "obstore": {"storage"},
    "confluent_kafka": {"connect"},
    "httpx": {"connect"},
    "lark": {"lang"},
    "adbc_driver_postgresql": {"connect"},
    "azure": {"connect"},
    "deltalake": {"connect"},
    "pymssql": {"connect"},
    "typer": {"cli"},
    "rich": {"cli", "simulate", "connect", "terminal"},  # a console is an output too
    "matplotlib": {"simulate"},
    "prometheus_client": {"telemetry"},
    "py_mini_racer": {"functions"},
    "shapely": {"functions"},
    "pyproj": {"functions"},
    "starlette": {"page"},
    "textual": {"terminal"},
    "uvicorn": {"page"},
}

MOST_LINES = 600


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def layer_of(module: str) -> str:
    """The package of `tideglass.a.b`, which is `a`; `package` for tideglass itself."""
    parts = module.split(".")[1:]
    return parts[0] if parts else "package"


def absolute(node: ast.ImportFrom, path: Path) -> str:
    """The module a statement in the file imports from, its leading dots resolved."""
    base = node.module or ""
    if not node.level:
        return base
    anchor = name_of(path).split(".")
    anchor = anchor if path.name == "__init__.py" else anchor[:-1]
    return ".".join([*anchor[: len(anchor) - node.level + 1], *([base] if base else [])])


@cache
def imports(path: Path) -> list[tuple[str, int]]:
    """Modules a file imports, wherever in it; `from tideglass.a import b` also counts as tideglass.a.b."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, path)
            for alias in node.names:
                inner = PACKAGE.parent.joinpath(*base.split("."), alias.name)
                is_module = inner.with_suffix(".py").exists() or inner.is_dir()
                yield (f"{base}.{alias.name}" if is_module else base), node.lineno


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_imports_only_layers_below_it(path):
    layer = layer_of(name_of(path))
    if layer == "package":  # tideglass/__init__.py lists the public names
        return
    assert layer in MAY_IMPORT, f"{layer!r} has no line in MAY_IMPORT: say what it may import"
    broken = [
        f"{path.relative_to(PACKAGE.parent)}:{line} imports {imported}"
        for imported, line in imports(path)
        if imported.split(".")[0] == "tideglass"
        and layer_of(imported) not in {layer, "package"}
        and layer_of(imported) not in MAY_IMPORT[layer]
    ]
    assert not broken, "\n".join(broken)


def lines_for_type_checkers(path: Path) -> set[int]:
    """Lines under `if TYPE_CHECKING:`, which name a type and load nothing."""
    guarded = (
        node
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    )
    return {inner.lineno for node in guarded for inner in node.body}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_package_of_others_is_used_only_where_it_belongs(path):
    layer = layer_of(name_of(path))
    unloaded = lines_for_type_checkers(path)
    broken = [
        f"{path.relative_to(PACKAGE.parent)}:{line} imports {imported}, allowed in {sorted(MAY_USE[top])}"
        for imported, line in imports(path)
        if (top := imported.split(".")[0]) in MAY_USE and layer not in MAY_USE[top] and line not in unloaded
    ]
    assert not broken, "\n".join(broken)


def loaded_with(path: Path) -> set[str]:
    """Modules of ours that a module needs: those it imports, and each package it imports a name from.

    What is imported inside a function counts too; what only a type checker reads does not.
    """
    unloaded = lines_for_type_checkers(path)
    found = {imported for imported, line in imports(path) if line not in unloaded}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.lineno not in unloaded:
            found.add(absolute(node, path))
    return {each for each in found if each.split(".")[0] == PACKAGE.name} - {PACKAGE.name}


def circle_in(needs: Mapping[str, set[str]]) -> list[str]:
    """Modules that need each other in a circle, the first again at the end; empty without a circle."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_module_imports_itself_in_a_circle():
    assert circle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}}), "else this test finds nothing"
    circle = circle_in({name_of(path): loaded_with(path) for path in modules()})
    assert not circle, " is imported by ".join(circle)


def test_the_table_has_no_circle_and_no_layer_that_does_not_exist():
    seen: set[str] = set()
    for layer, below in MAY_IMPORT.items():
        assert below <= seen, f"{layer} may import {below - seen}, which the table lists after it"
        seen.add(layer)
    present = {layer_of(name_of(path)) for path in modules()} - {"package"}
    assert present <= set(MAY_IMPORT)


def test_no_module_is_longer_than_600_lines():
    long = {name_of(path): n for path in modules() if (n := len(path.read_text().splitlines())) > MOST_LINES}
    assert not long, f"look for the second noun in {long}"


def test_no_module_is_a_drawer_for_everything():
    drawers = {"util", "utils", "helper", "helpers", "common", "misc"}
    assert not [name_of(path) for path in modules() if path.stem.lower() in drawers]


@pytest.mark.parametrize("module", ["file_source", "processor"])
def test_the_processes_that_plan_batches_start_without_pandas(module):
    """Spark starts several; each has what it imports to itself. Arrow imports pandas for its first array."""
    code = f"import sys, tideglass.spark.{module}; sys.exit('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "heavy",
    [
        "pyspark",
        "duckdb",
        "pyarrow",
        "numpy",
        "pandas",
        "matplotlib",
        "lark",
        "pydantic",
        "textual",
        "prometheus_client",
    ],
)
def test_the_command_starts_without(heavy):
    code = f"import sys, tideglass.cli.main; sys.exit({heavy!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"importing tideglass.cli.main imports {heavy} {done.stderr}"


def test_a_query_is_checked_without_the_engine(tmp_path):
    """Start-up is guarded by what is loaded: a time would depend on the machine."""
    code = """if True:
        import sys
        from tideglass.cli.main import main
        try:
            main(["new", "job"])
        except SystemExit:
            pass
        try:
            main(["check", "job"])
        finally:
            print(*sys.modules, file=sys.stderr)
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, "no errors" in done.stdout) == (0, True), done.stderr
    loaded = done.stderr.split()
    heavy = {"pyspark", "duckdb", "pyarrow", "numpy", "pandas", "matplotlib", "py_mini_racer", "pydantic"}
    assert not heavy & {module.split(".")[0] for module in loaded}
    assert len(loaded) < 430, "about 400 when this was written"


@pytest.mark.parametrize("module", ["job.diagnosis.diagnose", "terminal.app", "telemetry.prometheus"])
def test_a_job_is_looked_at_without_the_engine(module):
    code = f"import sys, tideglass.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = {each.split(".")[0] for each in done.stdout.split()}
    assert not loaded & {"pyspark", "duckdb", "pyarrow", "numpy", "pandas", "lark"}


def test_every_module_says_what_it_is():
    silent = [name_of(path) for path in modules() if not ast.get_docstring(tree_of(path))]
    assert not silent


def test_no_two_files_of_tests_have_one_name():
    """Tests are imported by the name of their file; of two with one name pytest takes neither."""
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_no_test_imports_a_test():
    """What several share is in tests/support, or beside what it drives (the oracle, the fuzzer, costs)."""
    found = [
        f"{path.relative_to(TESTS)}:{line} imports {imported}"
        for path in sorted(TESTS.rglob("*.py"))
        for imported, line in imports(path)
        if any(part.startswith("test_") or part == "conftest" for part in imported.split("."))
        and not imported.startswith("tideglass.")
    ]
    assert not found, "\n".join(found)
