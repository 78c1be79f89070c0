"""Where files are written: a directory, or any store that fsspec knows, such as S3."""

import os
from collections.abc import Mapping
from typing import Final

from pkafka.connect.errors import ConnectError, RetriableError

_LOCAL: Final = "file"
_UNDER_WAY: Final = ".tmp"


class FileStore:
    """Writes files below a URL of fsspec.

    Args:
        url: as ``/data``, ``file:///data`` or ``s3://bucket/prefix``.
        options: of the file system.

    Raises:
        ConnectError: fsspec, or what it needs for this URL, is not installed; or there is no such kind of store.
    """

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise ConnectError("The files sink needs fsspec: pip install 'pkafka[files]'") from error
        try:
            # The task alone writes below the URL, but readers and other tasks may be there: nothing is remembered.
            self._files, root = url_to_fs(url, use_listings_cache=False, **options)
        except ImportError as error:
            raise ConnectError(f"{url} needs a package that is not installed: {error}") from error
        except (ValueError, TypeError) as error:
            raise ConnectError(f"{url} is no place for files: {error}") from error
        self._root = root.rstrip("/")
        self._is_local = _LOCAL in (
            self._files.protocol if isinstance(self._files.protocol, tuple) else (self._files.protocol,)
        )

    def names(self, directory: str) -> list[str]:
        """The names of the files in a directory below the URL.

        Raises:
            RetriableError: they cannot be listed for now.
        """
        path = f"{self._root}/{directory}"
        try:
            found = self._files.ls(path, detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise RetriableError(f"{path} cannot be listed: {error!r}") from error
        return [str(each).rpartition("/")[2] for each in found]

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file, in place of one of that name. Nobody sees half of it.

        Raises:
            RetriableError: that fails for now.
        """
        path = f"{self._root}/{name}"
        try:
            if self._is_local:
                _write_locally(path, data)
            else:
                self._files.pipe_file(path, data)
        except Exception as error:
            raise RetriableError(f"{path} cannot be written: {error!r}") from error

    def remove(self, name: str) -> None:
        """Delete a file.

        Raises:
            RetriableError: that fails for now.
        """
        path = f"{self._root}/{name}"
        try:
            self._files.rm_file(path)
        except FileNotFoundError:
            return
        except Exception as error:
            raise RetriableError(f"{path} cannot be deleted: {error!r}") from error


def _write_locally(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    under_way = path + _UNDER_WAY
    with open(under_way, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())  # its records are committed next
    os.replace(under_way, path)
