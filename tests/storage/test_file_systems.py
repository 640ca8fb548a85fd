"""Files on a disk and in object stores behave alike; what they must do is the protocol's."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.stores import azurite, s3_server
from tideglass.core.errors import StorageError
from tideglass.storage import StoragePath, storage_path
from tideglass.storage.file_system import FileSystem
from tideglass.storage.local_files import LOCAL


@pytest.fixture(
    scope="module",
    params=[
        "local",
        pytest.param("azure", marks=pytest.mark.long),
        pytest.param("s3", marks=pytest.mark.long),
    ],
)
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[StoragePath]:
    folder = tmp_path_factory.mktemp("store")
    if request.param == "local":
        yield storage_path(folder)
        return
    with (
        azurite(folder) if request.param == "azure" else s3_server() as store,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield storage_path(store.root)


@pytest.fixture
def folder(root: StoragePath, request: pytest.FixtureRequest) -> StoragePath:
    """A folder of its own for each test."""
    return root / "run 1" / request.node.originalname


def test_what_is_written_is_read(folder):
    file = folder / "a" / "%41 b=ü~"
    file.write(b"0123456789")
    assert (file.read_bytes(), file.exists(), file.is_file(), file.is_dir()) == (
        b"0123456789",
        True,
        True,
        False,
    )
    assert (folder.is_dir(), (folder / "a").is_dir(), folder.is_file()) == (True, True, False)
    file.write(b"new", synced=False)
    assert file.read_text() == "new"
    with file.replacing() as body:
        body.write(b"newer")
    found = file.status()
    assert found is not None
    assert (found.name, found.size, found.is_folder) == ("%41 b=ü~", 5, False)
    writing = file.replacing()
    writing.__enter__().write(b"half")
    assert not writing.__exit__(RuntimeError, RuntimeError(), None)
    assert file.read_bytes() == b"newer"


def test_a_file_is_read_in_pieces(folder):
    body = bytes(range(256)) * 8192
    (folder / "large").write(body)
    with (folder / "large").open() as file:
        assert file.seek(-3, os.SEEK_END) == len(body) - 3
        assert file.read() == body[-3:]
        assert file.read() == b""
        file.seek(1_000_000)
        assert file.read(100) == body[1_000_000:1_000_100]
        assert file.tell() == 1_000_100
        file.seek(0)
        assert file.read() == body


def test_what_is_not_there_is_told_apart_from_what_is_empty(folder):
    absent = folder / "absent"
    with pytest.raises(FileNotFoundError):
        absent.read_bytes()
    with pytest.raises(FileNotFoundError):
        absent.open()
    with pytest.raises(FileNotFoundError):
        absent.unlink()
    with pytest.raises(FileNotFoundError):
        absent.move(folder / "other")
    absent.unlink(missing_ok=True)
    absent.delete_folder()
    assert (absent.status(), list(absent.iterdir()), absent.read_lines()) == (None, [], [])
    absent.write(b"")
    assert (absent.read_bytes(), absent.is_file(), [each.name for each in folder.iterdir()]) == (
        b"",
        True,
        ["absent"],
    )


def test_of_several_that_create_a_file_one_does(folder):
    file = folder / "leader"
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda number: file.create(f"{number}".encode()), range(8)))
    assert made.count(True) == 1
    assert file.read_text() == str(made.index(True))
    assert not file.create(b"again")
    assert [each.name for each in folder.list()] == ["leader"]


def test_of_several_that_replace_a_version_one_does(folder):
    file = folder / "lease"
    file.create(b"first")
    found = file.status()
    assert found is not None
    with ThreadPoolExecutor(8) as threads:
        done = list(
            threads.map(lambda number: file.replace_if(f"by {number}".encode(), found.version), range(8))
        )
    assert done.count(True) == 1
    assert file.read_text() == f"by {done.index(True)}"
    assert not file.replace_if(b"late", found.version)
    file.unlink()
    assert not file.replace_if(b"gone", found.version)
    assert not file.exists()


def test_lines_are_added_and_one_that_was_cut_is_dropped(folder):
    journal = folder / "journal.jsonl"
    journal.append_lines(["a", "b"])
    journal.append_lines(["ü"])
    assert journal.read_lines() == ["a", "b", "ü"]
    journal.write(b"a\nb\ncut")
    assert journal.read_lines() == ["a", "b"]
    journal.append_lines(["c"])
    assert journal.read_bytes() == b"a\nb\nc\n"


def test_lines_of_several_writers_are_all_there(folder):
    if folder.is_local:
        pytest.skip("of a disk: one process writes a journal, the one that has the lock")
    journal = folder / "journal.jsonl"
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: journal.append_lines([f"{number}"]), range(12)))
    assert sorted(journal.read_lines(), key=int) == [str(number) for number in range(12)]


def test_a_folder_is_listed_moved_from_and_removed(folder):
    for name in ("b.json", "a.json", "deep/c.json", "deep/er/d.json", "deeper/e.json", ".hidden"):
        (folder / name).write(name.encode())
    assert [(each.name, each.is_folder) for each in folder.list()] == [
        (".hidden", False),
        ("a.json", False),
        ("b.json", False),
        ("deep", True),
        ("deeper", True),
    ]
    below = [".hidden", "a.json", "b.json", "deep/c.json", "deep/er/d.json", "deeper/e.json"]
    assert [each.name for each in folder.list(recursive=True)] == below
    assert [each.size for each in folder.list(recursive=True)] == [len(name) for name in below]
    assert [each.name for each in folder.glob("*.json")] == ["a.json", "b.json"]
    assert [each.name for each in folder.glob("**/*.json")] == [
        "a.json",
        "b.json",
        "c.json",
        "d.json",
        "e.json",
    ]
    (folder / "b.json").move(folder / "deep" / "a.json")
    (folder / "a.json").move(folder / "deep" / "a.json")
    assert (folder / "deep" / "a.json").read_text() == "a.json"
    (folder / "deep").delete_folder()
    assert [each.name for each in folder.list(recursive=True)] == [".hidden", "deeper/e.json"]


def test_a_path_and_its_file_system_are_pickled_without_secrets(folder):
    file = folder / "kept"
    file.write(b"1")
    again = pickle.loads(pickle.dumps((file, file.file_system)))
    assert again[0].read_bytes() == again[1].read(file.path) == b"1"
    text = pickle.dumps((file, file.file_system)) + repr((file, file.file_system)).encode()
    secrets = [os.environ.get(name, "") for name in ("AZURE_STORAGE_ACCOUNT_KEY", "AWS_SECRET_ACCESS_KEY")]
    assert not [each for each in secrets if each and each.encode() in text]


def forked(use: Callable[[], bytes]) -> bytes:
    """What a forked process answers."""
    read_end, write_end = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(write_end, use())
        except StorageError as error:
            os.write(write_end, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        return answer.read()


def test_a_process_forked_from_one_that_has_used_a_store_says_so(folder):
    """The threads of the library stay behind; without the check such a process would wait for ever."""
    file = folder / "kept"
    file.write(b"1")
    answer = forked(file.read_bytes)
    assert answer == b"1" if folder.is_local else b"[STORAGE_FORKED]" in answer


def test_a_process_forked_before_any_use_reads(folder):
    """As Spark's workers are."""
    file = folder / "kept"
    file.write(b"1")
    code = """if True:
        import os, sys
        from tideglass.storage import storage_path
        if os.fork() == 0:
            os.write(1, storage_path(sys.argv[1]).read_bytes())
            os._exit(0)
        os.wait()
    """
    done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"1", b"")


_NAMES = st.sampled_from(["a", "b", "f/a", "f/b", "f/g/a"])
_BODIES = st.binary(max_size=3)
_STEPS = st.one_of(
    st.tuples(st.just("write"), _NAMES, _BODIES),
    st.tuples(st.just("create"), _NAMES, _BODIES),
    st.tuples(st.just("replace"), _NAMES, _BODIES, st.booleans()),
    st.tuples(st.just("append"), _NAMES, st.lists(st.text("xy", max_size=2), max_size=2)),
    st.tuples(st.just("move"), _NAMES, _NAMES),
    st.tuples(st.just("delete"), _NAMES),
    st.tuples(st.just("delete folder"), st.sampled_from(["f", "f/g"])),
    st.tuples(st.just("read"), _NAMES),
    st.tuples(st.just("list"), st.sampled_from(["", "f", "f/g"]), st.booleans()),
)


def answers(files: FileSystem, base: str, steps: list[tuple]) -> Iterator[object]:
    """What a file system answers to each step."""

    def at(name: str) -> str:
        return f"{base}/{name}" if name else base

    for step in steps:
        try:
            match step:
                case ("write", name, body):
                    yield files.write(at(name), body, synced=False)
                case ("create", name, body):
                    yield files.create(at(name), body)
                case ("replace", name, body, now):
                    found = files.status(at(name))
                    if found and not now:
                        files.write(at(name), b"other" + body)
                    yield files.replace_if(at(name), body, found.version if found else "none")
                case ("append", name, lines):
                    yield files.append_lines(at(name), lines)
                case ("move", name, to):
                    yield files.move(at(name), at(to))
                case ("delete", name):
                    yield files.delete(at(name))
                case ("delete folder", name):
                    yield files.delete_folder(at(name))
                case ("read", name):
                    with files.open(at(name)) as file:
                        yield files.read(at(name)), file.read()
                case ("list", name, True):
                    yield [(each.name, each.size) for each in files.list(at(name), recursive=True)]
                case ("list", name, False):
                    # An empty folder is one on a disk only.
                    yield [(each.name, each.size) for each in files.list(at(name)) if not each.is_folder]
        except FileNotFoundError:
            yield "not found"


@given(st.lists(_STEPS, max_size=20))
@settings(deadline=None, max_examples=100)
def test_random_steps_have_the_same_answers_on_a_disk_and_in_a_store(steps):
    folder = tempfile.mkdtemp()
    try:
        on_disk = list(answers(LOCAL, folder, steps))
    finally:
        shutil.rmtree(folder)
    in_memory = storage_path(f"memory://store/{uuid.uuid4().hex}")
    assert list(answers(in_memory.file_system, in_memory.path, steps)) == on_disk


def test_random_steps_find_differences():
    """Else the property above would hold for stores that do nothing."""
    steps: list[tuple] = [
        ("write", "f/a", b"1"),
        ("list", "", True),
        ("read", "f/a"),
        ("create", "f/a", b"2"),
    ]
    in_memory = storage_path(f"memory://store/{uuid.uuid4().hex}")
    assert list(answers(in_memory.file_system, in_memory.path, steps)) == [
        None,
        [("f/a", 1)],
        (b"1", b"1"),
        False,
    ]


def test_a_local_path_is_what_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = storage_path(Path("a") / "b.json")
    assert (str(path), str(path.resolve()), os.fspath(path)) == (
        "a/b.json",
        str(tmp_path / "a/b.json"),
        "a/b.json",
    )
    assert (path.name, path.stem, path.suffix, str(path.parent)) == ("b.json", "b", ".json", "a")
    assert str(path / "/c") == "/c"
    assert path.local == Path("a/b.json")
    assert [str(each) for each in storage_path("/a/b").parents] == ["/a", "/"]


def test_a_path_elsewhere_is_spelled_as_spark_spells_it():
    path = (
        storage_path("abfss://jobs@Account.dfs.core.windows.net//run/./".replace("./", ""))
        / "a"
        / "../b.json"
    )
    assert str(path) == "abfss://jobs@Account.dfs.core.windows.net/run/b.json"
    assert (path.name, path.suffix, str(path.with_name("c")), str(path.parent.parent)) == (
        "b.json",
        ".json",
        "abfss://jobs@Account.dfs.core.windows.net/run/c",
        "abfss://jobs@Account.dfs.core.windows.net",
    )
    assert path.relative_to(path.parent.parent) == "run/b.json"
    assert path.resolve() == path
    for use in (lambda: path.local, lambda: os.fspath(path), lambda: Path(path)):
        with pytest.raises(StorageError, match="NOT_ON_THIS_MACHINE"):
            use()
