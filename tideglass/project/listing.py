"""Which files a project consists of: as `asaproj.json` or an `.asaproj` lists them, or by its layout.

asaproj.json ─┐
x.asaproj ────┼──▶ Listing: name, query, configuration files with their kinds
the folder ───┘
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote
from xml.etree import ElementTree

from tideglass.core.errors import ProjectError
from tideglass.project.file_reader import (
    REMEDY,
    Problems,
    json_kind,
    project_path,
    read_object,
    read_text,
    text_of,
)
from tideglass.project.keys import MANIFEST, MANIFEST_ENTRY, canonical, warn_of_misspelt

_FOLDERS = {"Inputs": "input", "Outputs": "output", "Functions": "function"}
_QUERY = ".asaql"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a path that names a project leads to; the query may be found later.

    manifest: `asaproj.json` or an `.asaproj`; None for a folder without one.
    """

    manifest: Path | None
    query: Path | None
    folder: Path


@dataclass(frozen=True, slots=True)
class Listing:
    """What a project consists of.

    name: of the project.
    query: the file of the query; None after a reported problem.
    files: configuration files, each with its kind in lower case.
    code_files: C# files beside the query, whose functions it may call.
    """

    name: str
    query: Path | None
    files: tuple[tuple[Path, str], ...]
    code_files: tuple[Path, ...] = ()


def project_entry(path: Path) -> Entry:
    """What a path that names a project leads to. Raises ProjectError when it names none."""
    if not path.exists():
        raise ProjectError(
            f"{path}: there is no such file or folder; name a project's folder or its asaproj.json"
        )
    if path.is_file():
        if path.suffix.lower() == _QUERY:
            return Entry(_manifest_in(path.parent), path, path.parent)
        return Entry(path, None, path.parent)
    manifest = _manifest_in(path)
    if manifest is not None:
        return Entry(manifest, None, path)
    others = _with_suffix(path, ".asaproj")
    if len(others) > 1:
        found = ", ".join(other.name for other in others)
        raise ProjectError(f"{path}: there are several projects of Visual Studio ({found}); name one of them")
    queries = _with_suffix(path, _QUERY)
    if len(queries) != 1:
        found = ", ".join(query.name for query in queries) or "none"
        raise ProjectError(
            f"{path}: no asaproj.json, and not exactly one .asaql file ({found}); "
            "name the query file, or make a project with: tideglass new DIR"
        )
    return Entry(None, queries[0], path)


def _manifest_in(folder: Path) -> Path | None:
    manifest = project_path(folder, "asaproj.json")
    if manifest.exists():
        return manifest
    others = _with_suffix(folder, ".asaproj")
    return others[0] if len(others) == 1 else None


def _with_suffix(folder: Path, suffix: str) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.suffix.lower() == suffix and each.is_file())


def list_project(entry: Entry, problems: Problems) -> Listing:
    """What the project of an entry consists of. Raises ProjectError when its manifest cannot be read."""
    name = entry.folder.resolve().name
    if entry.manifest is None:
        apart = entry.query is not None and entry.query.parent != entry.folder
        return Listing(name, entry.query, () if apart else tuple(_by_layout(problems)))
    if entry.manifest.suffix.lower() == ".asaproj":
        listing = _of_visual_studio(entry.manifest, problems)
    else:
        listing = _of_manifest(entry.manifest, name, entry.query, problems)
    problems.raise_if_any()
    query = entry.query or _query_of(listing.query, entry.manifest, problems)
    return Listing(listing.name, query, listing.files, listing.code_files)


def _query_of(start: Path | None, manifest: Path, problems: Problems) -> Path | None:
    """The query a manifest names; where there is none of that name, the only one beside it."""
    if start is None or start.exists():
        return start
    others = _with_suffix(manifest.parent, _QUERY)
    if len(others) != 1:
        return start
    message = f"names the query {start.name}, which does not exist; {others[0].name}, the only one, is read"
    problems.warn(manifest, message)
    return others[0]


def unlisted(listing: Listing, problems: Problems) -> list[Path]:
    """Configuration files in the project's folders that its manifest does not list.

    A script is no such file when the configuration beside it is listed.
    """
    listed = {file.resolve() for file, _ in listing.files}
    covered = {_script_beside(file).resolve() for file, _ in listing.files}
    found = (file for file, kind in _by_layout(problems) if kind)
    return [file for file in found if file.resolve() not in listed | covered]


def _script_beside(file: Path) -> Path:
    """`f.js` for `f.js.json` and `f.json`."""
    return file.with_name(file.name.removesuffix(".json").removesuffix(".js") + ".js")


# ---------------------------------------------------------------- a folder without a manifest


def _by_layout(problems: Problems) -> list[tuple[Path, str]]:
    """The configuration files of a folder: settings at its top, the others in folders of their own.

    One that is a link out of the project may be data that is read by another name, so it is noted.
    """
    folder = problems.folder
    config = project_path(folder, "JobConfig.json")
    files: list[tuple[Path, str]] = [(config, "jobconfig")] if config.exists() else []
    for file in _with_suffix(folder, ".json"):  # of the first versions of the tools
        is_listed = file != config and file.name.lower() != "asaproj.json" and problems.bounds.hold(file)
        kind = kind_of(file, "") if is_listed else ""
        if kind and (kind != "jobconfig" or not files):
            files.append((file, kind))
    for sub_folder, kind in _FOLDERS.items():
        for file in sorted(project_path(folder, sub_folder).glob("*")):
            if file.suffix.lower() == ".js" and kind == "function":
                files.append((file, kind))
            elif file.suffix.lower() == ".json" and problems.bounds.hold(file):
                files.append((file, kind_of(file, kind)))
            elif file.suffix.lower() == ".json":
                problems.notice(file, f"lies outside of the project and is not read; {REMEDY}")
    return files


def kind_of(file: Path, folder_kind: str) -> str:
    """What a JSON file in a folder of a kind is, in lower case; '' for data that lies there.

    Configuration says its `ScriptType`, or is spelled as the service's interface does. A damaged one is told
    from data by these words, so that it is reported and not passed over.
    """
    unheard = Problems(file.parent)
    text = (read_text(file, unheard) or "").casefold()
    if '"scripttype"' not in text:
        return folder_kind if '"properties"' in text and _is_of_interface(text) else ""
    content = read_object(file, unheard)
    if content is None:
        return folder_kind
    return str(canonical(content, ("ScriptType",)).get("ScriptType", "")).lower() or folder_kind


def _is_of_interface(text: str) -> bool:
    return any(f'"{word}"' in text for word in ("datasource", "binding"))


# ---------------------------------------------------------------- asaproj.json


def _of_manifest(path: Path, name: str, query: Path | None, problems: Problems) -> Listing:
    content = read_object(path, problems)
    if content is None:
        return Listing(name, None, ())
    manifest = canonical(content, MANIFEST)
    warn_of_misspelt(manifest, MANIFEST, path, problems)
    name = text_of(manifest, "name", path, problems, required=False) or name
    start = text_of(manifest, "startFile", path, problems, required=False) if query is None else None
    if start is None and query is None:
        others = _with_suffix(path.parent, _QUERY)
        if len(others) == 1:
            query = others[0]
        elif not problems.errors:
            text_of(manifest, "startFile", path, problems)
    if start:
        query = problems.path(path.parent, start, path, '"startFile"', must_exist=False)
    configurations = manifest.get("configurations")
    if configurations is None:
        problems.notice(path, 'has no "configurations"; the files were found by their folders')
        return Listing(name, query, tuple(_by_layout(problems)))
    if not isinstance(configurations, list):
        problems.error(path, f'"configurations" is {json_kind(configurations)}, not an array')
        return Listing(name, query, ())
    return Listing(name, query, tuple(_entries(cast("list[object]", configurations), path, problems)))


def _entries(configurations: list[object], path: Path, problems: Problems) -> Iterator[tuple[Path, str]]:
    for number, entry in enumerate(configurations, 1):
        fields = cast("Mapping[str, Any]", entry) if isinstance(entry, dict) else {}
        content = canonical(fields, MANIFEST_ENTRY)
        file_path, sub_type = content.get("filePath"), content.get("subType")
        if isinstance(file_path, str) and isinstance(sub_type, str):
            file = problems.path(path.parent, file_path, path, f"configuration {number}", must_exist=False)
            if file is not None:
                yield file, sub_type.lower()
        else:
            problems.error(
                path,
                f'configuration {number} needs the texts "filePath" and "subType", '
                f"has {json.dumps(entry, ensure_ascii=False)}",
            )


# ---------------------------------------------------------------- Visual Studio


def _of_visual_studio(path: Path, problems: Problems) -> Listing:
    """The project of an `.asaproj`, which MSBuild reads: items name files, a property the query.

    Items with other names are about the build and concern no row.
    """
    text = read_text(path, problems)
    root: ElementTree.Element | None = None
    try:
        root = None if text is None else ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError) as error:
        problems.error(path, f"not XML, which a project of Visual Studio is: {error}")
    if root is None:
        return Listing(path.stem, None, ())
    if _tag(root) != "project":
        problems.error(path, f"holds <{root.tag}> where the <Project> of Visual Studio is expected")
        return Listing(path.stem, None, ())
    items = list(root.iter())
    texts = {_tag(each): (each.text or "").strip() for each in items if len(each) == 0}
    queries: list[Path] = []
    files: list[tuple[Path, str]] = []
    code_files: list[Path] = []
    for item in items:
        match _tag(item):
            case "script":
                queries += _included(item, path, problems)
            case "scriptcode":
                code_files += _included(item, path, problems)
            case "configure":
                kind = _sub_type(item)
                files += [(file, kind or kind_of(file, "")) for file in _included(item, path, problems)]
            case _:
                pass
    start_text = texts.get("startfile")
    start = (
        problems.path(path.parent, start_text, path, "<StartFile>", must_exist=False) if start_text else None
    )
    query = start or (queries[0] if len(queries) == 1 else None)
    if query is None:
        others = queries or _with_suffix(path.parent, _QUERY)
        if len(others) == 1:
            query = others[0]
        else:
            found = ", ".join(other.name for other in others) or "none"
            problems.error(
                path, f"names no <StartFile>, and not exactly one <Script> ({found}); name the query"
            )
    return Listing(texts.get("name") or path.stem, query, tuple(files), tuple(code_files))


def _tag(element: ElementTree.Element) -> str:
    """The name of an element in lower case, as MSBuild compares them, without its namespace."""
    tag = cast("object", element.tag)  # of a comment it is a function
    return tag.rpartition("}")[2].casefold() if isinstance(tag, str) else ""


def _sub_type(item: ElementTree.Element) -> str:
    """The item's `SubType`, which newer versions of MSBuild let be an attribute too."""
    sub_types = [each.text or "" for each in item if _tag(each) == "subtype"]
    sub_types += [value for name, value in item.attrib.items() if name.casefold() == "subtype"]
    return sub_types[0].strip().lower() if sub_types else ""


def _included(item: ElementTree.Element, path: Path, problems: Problems) -> list[Path]:
    """The files an item includes: several are separated by semicolons, each may be a pattern."""
    found: list[Path] = []
    for text in item.attrib.get("Include", "").split(";"):
        named = unquote(text.strip()).replace("\\", "/")
        if ("*" in named or "?" in named) and not Path(named).is_absolute():
            fitting = sorted(path.parent.glob(named.removeprefix("./")))
            found += [file for file in fitting if problems.bounds.hold(file)]
        elif named:
            file = problems.path(
                path.parent, named, path, f"<{item.tag.rpartition('}')[2]}>", must_exist=False
            )
            found += [] if file is None else [file]
    return found
