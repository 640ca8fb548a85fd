"""Files of a job, wherever they are: on a disk of this machine, or in the object store of a cloud.

`storage_path` makes a `StoragePath` of what a user wrote, which reads and writes through the `FileSystem` of
its place. A path that is elsewhere is spelled as Spark spells it
(`abfs://container@account.dfs.core.windows.net/folder`, `s3a://bucket/folder`),
so the same text serves Spark's checkpoint.
"""

from tideglass.storage.file_system import FileStatus, FileSystem
from tideglass.storage.storage_options import StorageOptions
from tideglass.storage.storage_path import AnyPath, StoragePath, storage_path

__all__ = ["AnyPath", "FileStatus", "FileSystem", "StorageOptions", "StoragePath", "storage_path"]
