"""Files in an object store, by the library obstore: Azure Storage, S3 and what speaks like it, Google's."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

from tideglass.core.errors import StorageError
from tideglass.storage.file_system import FileStatus
from tideglass.storage.storage_options import VARIABLE, StorageOptions, store_config
from tideglass.storage.store_uri import StoreUri

if TYPE_CHECKING:
    from obstore import ObjectMeta, UpdateVersion
    from obstore.store import ObjectStore

REMEDIES = {
    "azure": "set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID with "
    "AZURE_TENANT_ID and AZURE_CLIENT_SECRET in the environment, or "
    "fs.azure.account.key.ACCOUNT.dfs.core.windows.net in Spark's configuration",
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or fs.s3a.access.key and "
    "fs.s3a.secret.key in Spark's configuration",
    "memory": "",
    "gcs": "set GOOGLE_APPLICATION_CREDENTIALS in the environment, or "
    "fs.gs.auth.service.account.json.keyfile in Spark's configuration",
}

#: The process that has used the library; a second one is a fork of it.
_USED_BY: set[int] = set()
#: A status that waits for minutes helps nobody; a batch that fails is run again.
MOST_RETRIES, _RETRY_SECONDS = 6, 60
#: What is read at once of a file that is read piece by piece: a request takes longer than a megabyte does.
_READ_BYTES = 1 << 20
#: Above this what is written lies in a temporary file of this machine until it is whole.
_IN_MEMORY_BYTES = 1 << 24
#: How often a line is added anew after another process has changed the file meanwhile.
_APPEND_ATTEMPTS = 20
#: Names that carry a signature of a request.
_SECRETS = re.compile(r"(?i)(sig|signature|x-amz-[a-z-]+|se|sp|sv|sr)=[^&\s,\"']+")
#: What an answer without credentials goes through: the address that gives a machine of the cloud its own.
_NO_CREDENTIALS = re.compile(r"169\.254\.|token request|/api/token|identity|metadata\.google|[Cc]redential")


class ObjectFileSystem:
    """The objects of one container as files; a folder is there while an object is below it."""

    def __init__(self, uri: StoreUri) -> None:
        self.uri = uri

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectFileSystem) and self.uri == other.uri

    def __hash__(self) -> int:
        return hash(self.uri)

    def __reduce__(self) -> tuple[Any, ...]:
        return (ObjectFileSystem, (self.uri,))

    @property
    def _store(self) -> ObjectStore:
        _USED_BY.add(os.getpid())
        if len(_USED_BY) > 1:
            raise StorageError(
                f"[STORAGE_FORKED] {self.uri.root} cannot be used in a process that was forked from one that "
                "has used a store: the threads of the library stay behind\n  hint: start the process anew"
            )
        return _opened(self.uri, os.environ.get(VARIABLE, ""))

    def read(self, path: str) -> bytes:
        import obstore

        with self._translated(path):
            return bytes(obstore.get(self._store, path).bytes())

    def open(self, path: str) -> BinaryIO:
        found = self.status(path)
        if found is None or found.is_folder:
            raise FileNotFoundError(self._shown(path))
        reader = _ObjectReader(self, path, found.size)
        return cast("BinaryIO", io.BufferedReader(reader, _READ_BYTES))

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes [start, end) of a file that has at least `end`."""
        import obstore

        with self._translated(path):
            return bytes(obstore.get_range(self._store, path, start=start, end=end))

    def write(self, path: str, body: bytes, *, synced: bool = True) -> None:
        import obstore

        with self._translated(path):
            obstore.put(self._store, path, body)

    @contextmanager
    def replacing(self, path: str, *, synced: bool = True) -> Generator[BinaryIO]:
        import obstore

        with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as file:
            yield cast("BinaryIO", file)
            file.seek(0)
            with self._translated(path):
                obstore.put(self._store, path, cast("IO[bytes]", file))

    def create(self, path: str, body: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._translated(path):
            try:
                obstore.put(self._store, path, body, mode="create")
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def replace_if(self, path: str, body: bytes, version: str) -> bool:
        import obstore
        from obstore.exceptions import PreconditionError

        with self._translated(path):
            try:
                obstore.put(self._store, path, body, mode=cast("UpdateVersion", {"e_tag": version}))
            except PreconditionError:
                return False
            except FileNotFoundError as error:  # of S3; of a missing container too
                if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
                    raise
                return False
        return True

    def append_lines(self, path: str, lines: Iterable[str]) -> None:
        added = "".join(f"{line}\n" for line in lines).encode()
        self._extend(path, lambda body: body[: body.rfind(b"\n") + 1] + added)

    def append(self, path: str, body: bytes) -> None:
        self._extend(path, lambda before: before + body)

    def _extend(self, path: str, extended: Callable[[bytes], bytes]) -> None:
        """Read, add, and write if the file is still the one that was read: an object cannot grow.

        A file that much is added to is to be bounded by whoever writes it.
        """
        import obstore

        for _ in range(_APPEND_ATTEMPTS):
            with self._translated(path):
                try:
                    found = obstore.get(self._store, path)
                    body, version = bytes(found.bytes()), found.meta["e_tag"] or ""
                except FileNotFoundError as error:
                    if _has_no_container(error):
                        raise
                    body, version = b"", ""
            whole = extended(body)
            if self.replace_if(path, whole, version) if version else self.create(path, whole):
                return
        raise StorageError(f"[STORAGE_BUSY] {self._shown(path)} is written by other processes all the time")

    def list(self, folder: str, *, recursive: bool = False) -> Sequence[FileStatus]:
        import obstore

        start = f"{folder}/" if folder else ""
        with self._translated(folder):
            if recursive:
                pages = obstore.list(self._store, folder or None, chunk_size=1000)
                objects, folders = [each for page in pages for each in page], []
            else:
                result = obstore.list_with_delimiter(self._store, folder or None)
                objects, folders = list(result["objects"]), list(result["common_prefixes"])
        above = {*folders, *_folders_above(each["path"] for each in objects)}
        files = [
            _status_of(each, each["path"].removeprefix(start))
            for each in objects
            if each["path"] != folder and each["path"] not in above and not self._marks_a_folder(each)
        ]
        names = {each.removesuffix("/").removeprefix(start) for each in folders}
        if not recursive:  # a folder that is empty but for the object that marks it
            listed = {each.name for each in files}
            marks = (each["path"].removeprefix(start) for each in objects if each["path"] != folder)
            names |= {name for name in marks if name not in listed}
        return sorted(
            [*files, *(FileStatus(name, 0, 0, "", is_folder=True) for name in names)],
            key=lambda each: each.name,
        )

    def status(self, path: str) -> FileStatus | None:
        import obstore

        name = path.rpartition("/")[2]
        if path:
            with self._translated(path):
                try:
                    found = obstore.head(self._store, path)
                except FileNotFoundError as error:
                    if _has_no_container(error):
                        raise
                else:
                    if not self._marks_a_folder(found):
                        return _status_of(found, name)
                    return FileStatus(name, 0, 0, "", is_folder=True)
        with self._translated(path):
            page = next(iter(obstore.list(self._store, path or None, chunk_size=1)), [])
        if page or not path:
            return FileStatus(name, 0, 0, "", is_folder=True)
        return None

    def make_folder(self, path: str) -> None:
        """Nothing: a folder is there while an object is below it."""

    def move(self, path: str, to: str) -> None:
        import obstore

        if path == to:
            if self._head(path) is None:
                raise FileNotFoundError(self._shown(path))
            return
        try:
            with self._translated(path):
                obstore.rename(self._store, path, to)
        except FileNotFoundError:
            raise FileNotFoundError(self._shown(path)) from None

    def delete(self, path: str) -> None:
        self._delete([path])

    def delete_folder(self, path: str) -> None:
        import obstore

        with self._translated(path):
            pages = obstore.list(self._store, path or None, chunk_size=1000)
            found = [each["path"] for page in pages for each in page]
        self._delete([each for each in found if each != path])
        if path and (mark := self._head(path)) is not None and self._marks_a_folder(mark):
            self._delete([path])

    def _delete(self, paths: list[str]) -> None:
        import obstore

        if not paths:
            return
        with self._translated(paths[0]):
            try:
                obstore.delete(self._store, paths)
                return
            except FileNotFoundError as error:
                if _has_no_container(error):
                    raise
        if len(paths) > 1:  # the store says that one was gone, and need not have removed those after it
            for path in paths:
                self._delete([path])

    def _head(self, path: str) -> ObjectMeta | None:
        import obstore

        with self._translated(path):
            try:
                return obstore.head(self._store, path)
            except FileNotFoundError:
                return None

    def _marks_a_folder(self, found: ObjectMeta) -> bool:
        """Whether an object is what Hadoop makes in place of a folder: an empty one that says so.

        In Azure Storage its metadata say so; in S3 its key ends in a slash, which obstore leaves out.
        """
        if found["size"]:
            return False
        if self.uri.kind == "s3":
            return self._head(found["path"]) is None
        if self.uri.kind != "azure":
            return False
        import obstore

        with self._translated(found["path"]):
            try:
                attributes = obstore.get(self._store, found["path"]).attributes
            except FileNotFoundError:
                return False
        return any(name.lower() == "hdi_isfolder" for name in attributes)

    def _shown(self, path: str) -> str:
        return f"{self.uri.root}/{path}"

    def _no_container(self) -> StorageError:
        return StorageError(
            f"[NO_SUCH_CONTAINER] {self.uri.root} has no container or bucket {self.uri.container!r}"
            "\n  hint: make it first; a run makes the folders in it, not itself"
        )

    @contextmanager
    def _translated(self, path: str) -> Generator[None]:
        """Errors of the library as ours: with the place and the remedy, without signatures."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except FileNotFoundError as error:
            if _has_no_container(error):
                raise self._no_container() from None
            raise FileNotFoundError(self._shown(path)) from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise StorageError(
                f"[STORAGE_DENIED] {self._shown(path)}: the store refuses what this process shows it: "
                f"{_reason(error)}\n  hint: {REMEDIES[self.uri.kind]}"
            ) from None
        except BaseError as error:
            if _has_no_container(error):  # a listing says so by an answer of another kind
                raise self._no_container() from None
            if _NO_CREDENTIALS.search(str(error)):
                raise StorageError(
                    f"[NO_CREDENTIALS] {self._shown(path)}: there are no credentials for {self.uri.root}"
                    f"\n  hint: {REMEDIES[self.uri.kind]}"
                ) from None
            raise StorageError(f"[STORAGE_FAILED] {self._shown(path)}: {_reason(error)}") from None


class _ObjectReader(io.RawIOBase):
    """An object as a file to read and seek in."""

    def __init__(self, files: ObjectFileSystem, path: str, size: int) -> None:
        self._files, self._path, self._size, self._at = files, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, origin + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        body = self._files.read_range(self._path, self._at, end)
        buffer[: len(body)] = body
        self._at += len(body)
        return len(body)


@lru_cache(maxsize=32)
def _opened(uri: StoreUri, settings: str) -> ObjectStore:
    """The store of a container. settings: those of the environment, for which it was made."""
    try:
        from obstore.store import AzureStore, GCSStore, MemoryStore, S3Store
    except ImportError:
        raise StorageError(
            f"[NO_STORAGE_LIBRARY] {uri.root} needs the package obstore\n  hint: pip install obstore"
        ) from None
    if uri.kind == "memory":
        return MemoryStore()
    config = store_config(uri, StorageOptions.of_environment(), os.environ)
    options: Any = {"connect_timeout": "5s"} | config.pop("client_options", {})
    retries: Any = {"max_retries": MOST_RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)}
    kinds: dict[str, Any] = {"azure": AzureStore, "s3": S3Store, "gcs": GCSStore}
    try:
        return kinds[uri.kind](uri.container, client_options=options, retry_config=retries, **config)
    except Exception as error:
        raise StorageError(
            f"[STORAGE_SETTINGS] {uri.root}: {_reason(error)}\n  hint: {REMEDIES[uri.kind]}"
        ) from None


def _status_of(found: ObjectMeta, name: str) -> FileStatus:
    modified_ns = int(found["last_modified"].timestamp() * 1_000_000) * 1000
    return FileStatus(name, found["size"], modified_ns, found["e_tag"] or "")


def _folders_above(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        while path := path.rpartition("/")[0]:
            yield path


def _has_no_container(error: Exception) -> bool:
    return any(code in str(error) for code in ("ContainerNotFound", "NoSuchBucket", "FilesystemNotFound"))


def _reason(error: Exception) -> str:
    """The first sentence of an error of the library, without the values of signed parameters."""
    first = str(error).strip().partition("\n")[0]
    return _SECRETS.sub(r"\1=…", first)
