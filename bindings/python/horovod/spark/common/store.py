"""Where estimators keep data, checkpoints and logs: a folder in any file system of fsspec that all workers reach."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from horovod.common.util import require_framework
from horovod.data import parquet

_PROBE = ".roda-probe"


class RemoteStore:
    """A rank's view of a store, for one run: the paths, ``get_local_output_dir()`` and ``sync(folder)``."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Store:
    """The interface of all stores. ``Store.create(path)`` chooses one by the path."""

    @staticmethod
    def create(prefix_path: str, *args: Any, **kwargs: Any) -> Store:
        """Return the store for a path.

        Parameters
        ----------
        prefix_path : str
            ``hdfs://…``, ``dbfs:/…``, ``s3://…`` or any other that fsspec knows, or a path of this machine's.
        *args, **kwargs
            Of the store's class.
        """
        if HDFSStore.matches(prefix_path):
            return HDFSStore(prefix_path, *args, **kwargs)
        if DBFSLocalStore.matches_dbfs(prefix_path):
            return DBFSLocalStore(prefix_path, *args, **kwargs)
        if LocalStore.matches(prefix_path) or "://" not in prefix_path:
            return LocalStore(prefix_path, *args, **kwargs)
        return FilesystemStore(prefix_path, *args, **kwargs)


class PrefixStore(Store):
    """Folders below one; :class:`FilesystemStore` says of what."""

    CHECKPOINT: ClassVar[str] = "checkpoint"

    def __init__(
        self,
        prefix_path: str,
        train_path: str | None = None,
        val_path: str | None = None,
        test_path: str | None = None,
        runs_path: str | None = None,
        save_runs: bool = True,
        storage_options: dict[str, Any] | None = None,
        checkpoint_filename: str | None = None,
    ) -> None:
        self.prefix_path = self.get_full_path(prefix_path)
        self.storage_options = storage_options
        self._save_runs = save_runs
        self._checkpoint_filename = checkpoint_filename or self.CHECKPOINT
        self._train_path = self.get_full_path(train_path or self._below("intermediate_train_data"))
        self._val_path = self.get_full_path(val_path or self._below("intermediate_val_data"))
        self._test_path = self.get_full_path(test_path or self._below("intermediate_test_data"))
        self._runs_path = self.get_full_path(runs_path or self._below("runs"))
        self._fs: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the file system's connections out."""
        return {**vars(self), "_fs": None}

    def _below(self, name: str) -> str:
        return f"{self.prefix_path.rstrip('/')}/{name}"

    def get_full_path(self, path: str) -> str:
        """Return a path with the file system's prefix."""
        return path

    def get_full_path_fn(self) -> Callable[[str], str]:
        """Return :meth:`get_full_path`."""
        return self.get_full_path

    def get_train_data_path(self, idx: int | None = None) -> str:
        """Return the folder of the training data, or of those of a number."""
        return _numbered(self._train_path, idx)

    def get_val_data_path(self, idx: int | None = None) -> str:
        """Return the folder of the validation data, or of those of a number."""
        return _numbered(self._val_path, idx)

    def get_test_data_path(self, idx: int | None = None) -> str:
        """Return the folder of the test data, or of those of a number."""
        return _numbered(self._test_path, idx)

    def saving_runs(self) -> bool:
        """Tell whether checkpoints and logs are kept."""
        return self._save_runs

    def get_runs_path(self) -> str:
        """Return the folder of all runs."""
        return self._runs_path

    def get_run_path(self, run_id: str) -> str:
        """Return a run's folder."""
        return f"{self._runs_path.rstrip('/')}/{run_id}"

    def get_checkpoint_path(self, run_id: str) -> str | None:
        """Return the folder of a run's checkpoints; None where runs aren't kept."""
        return self.get_run_path(run_id) if self._save_runs else None

    def get_logs_path(self, run_id: str) -> str | None:
        """Return the folder of a run's logs; None where runs aren't kept."""
        return f"{self.get_run_path(run_id)}/{self.get_logs_subdir()}" if self._save_runs else None

    def get_checkpoint_filename(self) -> str:
        """Return a checkpoint's name."""
        return self._checkpoint_filename

    def get_logs_subdir(self) -> str:
        """Return the name of the logs' folder."""
        return "logs"

    def get_data_metadata_path(self, path: str) -> str:
        """Return where Horovod keeps what it has read of data's footers."""
        return f"{path.rstrip('/')}/_cached_metadata.pkl"


class FilesystemStore(PrefixStore):
    """A folder in a file system of fsspec's.

    Parameters
    ----------
    prefix_path : str
        The folder, with the file system's prefix, as in ``s3://bucket/folder``.
    train_path, val_path, test_path, runs_path : str, optional
        Folders for data and for runs; by default some below `prefix_path`.
    save_runs : bool
        Keep checkpoints and logs.
    storage_options : dict, optional
        Of the file system, such as keys.
    checkpoint_filename : str, optional
        A checkpoint's name in its run's folder.
    """

    is_sparks: ClassVar[bool] = False  # whether Spark itself writes there, with no more than the path

    @property
    def fs(self) -> Any:
        """The file system, of fsspec."""
        if self._fs is None:
            require_framework("fsspec", "horovod.spark")
            import fsspec

            self._fs = fsspec.core.url_to_fs(self.prefix_path, **(self.storage_options or {}))[0]
        return self._fs

    def get_localized_path(self, path: str) -> str:
        """Return a path as the file system's methods take it, without the prefix."""
        return str(self.fs._strip_protocol(path))

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or a folder."""
        return bool(self.fs.exists(self.get_localized_path(path)))

    def read(self, path: str) -> bytes:
        """Return what a file holds."""
        return bytes(self.fs.cat_file(self.get_localized_path(path)))

    def write_text(self, path: str, text: str) -> None:
        """Write a file, with the folders on its way."""
        path = self.get_localized_path(path)
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.fs.pipe_file(path, text.encode())

    def check_writable(self) -> None:
        """Raise OSError, with the reason, when nothing can be written here."""
        path = f"{self.prefix_path.rstrip('/')}/{_PROBE}"
        try:
            self.write_text(path, "")
            self.fs.rm(self.get_localized_path(path))
        except Exception as error:  # whatever the file system raises
            raise OSError(
                f"The store at {self.prefix_path} can't be written: {type(error).__name__}: {error}"
            ) from error

    def get_checkpoints(self, run_id: str, suffix: str = ".ckpt") -> list[str]:
        """Return a run's files that end so, sorted."""
        folder = self.get_checkpoint_path(run_id)
        if folder is None or not self.exists(folder):
            return []
        return sorted(
            name for name in self.fs.ls(self.get_localized_path(folder), detail=False) if name.endswith(suffix)
        )

    def is_parquet_dataset(self, path: str) -> bool:
        """Tell whether there are Parquet files with rows."""
        try:
            self.get_parquet_dataset(path)
        except (ValueError, OSError):
            return False
        return True

    def get_parquet_dataset(self, path: str) -> parquet.Dataset:
        """Return what the footers of the Parquet files at a path say; ValueError where there are none."""
        return parquet.find(self.fs, self.get_localized_path(path))

    # --- a run's folder on the machine of a rank ---

    def get_local_output_dir_fn(self, run_id: str) -> Callable[[], Any]:
        """Return what makes the folder in which a rank writes what :meth:`sync_fn` brings to the store."""
        del run_id
        return _temporary_folder

    def sync_fn(self, run_id: str) -> Callable[[str], None]:
        """Return what brings the files of a folder here that changed since the last time."""
        target = self.get_run_path(run_id)
        sent: dict[Path, int] = {}

        def sync(folder: str) -> None:
            for file in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
                changed = file.stat().st_mtime_ns
                if sent.get(file) != changed:
                    remote = self.get_localized_path(f"{target}/{file.relative_to(folder).as_posix()}")
                    self.fs.makedirs(remote.rpartition("/")[0], exist_ok=True)
                    self.fs.put_file(str(file), remote)
                    sent[file] = changed

        return sync

    def to_remote(self, run_id: str, dataset_idx: int | None = None) -> RemoteStore:
        """Return what a rank needs of this store."""
        return RemoteStore(
            train_data_path=self.get_train_data_path(dataset_idx),
            val_data_path=self.get_val_data_path(dataset_idx),
            test_data_path=self.get_test_data_path(dataset_idx),
            saving_runs=self.saving_runs(),
            runs_path=self.get_runs_path(),
            run_path=self.get_run_path(run_id),
            checkpoint_path=self.get_checkpoint_path(run_id),
            logs_path=self.get_logs_path(run_id),
            checkpoint_filename=self.get_checkpoint_filename(),
            logs_subdir=self.get_logs_subdir(),
            get_local_output_dir=self.get_local_output_dir_fn(run_id),
            sync=self.sync_fn(run_id),
        )

    def read_serialized_keras_model(self, ckpt_path: str, model: Any = None, custom_objects: Any = None) -> bytes:
        """Return the file of a Keras model."""
        del model, custom_objects
        return self.read(ckpt_path)


AbstractFilesystemStore = FilesystemStore


class LocalStore(FilesystemStore):
    """A folder that all machines have at the same path, as over NFS; or that of one machine."""

    PREFIX: ClassVar[str] = "file://"
    is_sparks: ClassVar[bool] = True

    @classmethod
    def matches(cls, path: str) -> bool:
        """Tell whether a path has the file system's prefix."""
        return path.startswith(cls.PREFIX)

    def get_full_path(self, path: str) -> str:
        """Return a path with the file system's prefix."""
        return path if self.matches(path) else self.PREFIX + os.path.abspath(path)

    def get_local_output_dir_fn(self, run_id: str) -> Callable[[], Any]:
        """Return what makes a run's folder."""
        if not self._save_runs:
            return _temporary_folder
        path = self.get_localized_path(self.get_run_path(run_id))

        @contextlib.contextmanager
        def run_folder() -> Iterator[str]:
            os.makedirs(path, exist_ok=True)
            yield path

        return run_folder

    def sync_fn(self, run_id: str) -> Callable[[str], None]:
        """Return what does nothing: files are here already."""
        del run_id
        return _leave


class HDFSStore(FilesystemStore):
    """A folder of HDFS, which pyarrow reaches by libhdfs.

    Parameters
    ----------
    prefix_path : str
        ``hdfs://host:port/folder``, or ``hdfs:///folder``.
    host, port, user, kerb_ticket, extra_conf
        Of the connection; by default those of the path and of Hadoop's configuration.
    driver : str
        ``libhdfs``; there is no other.
    *args, **kwargs
        Of :class:`FilesystemStore`.

    Raises
    ------
    ValueError
        For another driver.
    """

    PREFIX: ClassVar[str] = "hdfs://"
    is_sparks: ClassVar[bool] = True

    def __init__(
        self,
        prefix_path: str,
        *args: Any,
        host: str | None = None,
        port: int | None = None,
        user: str | None = None,
        kerb_ticket: str | None = None,
        driver: str = "libhdfs",
        extra_conf: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        if driver != "libhdfs":
            raise ValueError(f"driver={driver!r}: pyarrow reaches HDFS by libhdfs alone.")
        wishes = {"host": host, "port": port, "user": user, "kerb_ticket": kerb_ticket, "extra_conf": extra_conf}
        given = {name: value for name, value in wishes.items() if value is not None}
        kwargs["storage_options"] = {**(kwargs.get("storage_options") or {}), **given}
        super().__init__(prefix_path, *args, **kwargs)

    @classmethod
    def matches(cls, path: str) -> bool:
        """Tell whether a path has the file system's prefix."""
        return path.startswith(cls.PREFIX)

    def get_full_path(self, path: str) -> str:
        """Return a path with the file system's prefix."""
        return path if self.matches(path) else self.PREFIX + path


class DBFSLocalStore(LocalStore):
    """A folder of Databricks' file system, by its mount at ``/dbfs``."""

    CHECKPOINT: ClassVar[str] = "checkpoint.tf"
    PREFIXES: ClassVar[tuple[str, ...]] = ("dbfs:/", "/dbfs/", "file:/dbfs/", "file:///dbfs/")

    def __init__(self, prefix_path: str, *args: Any, **kwargs: Any) -> None:
        if not self.matches_dbfs(prefix_path):
            raise ValueError(f"{prefix_path} is no path of DBFS: it must begin with one of {', '.join(self.PREFIXES)}.")
        super().__init__(prefix_path, *args, **kwargs)

    @classmethod
    def matches_dbfs(cls, path: str) -> bool:
        """Tell whether a path is one of DBFS."""
        return path.startswith(cls.PREFIXES)

    def get_full_path(self, path: str) -> str:
        """Return the path of the mount, with the file system's prefix."""
        for prefix in self.PREFIXES:
            if path.startswith(prefix):
                return f"{self.PREFIX}/dbfs/{path[len(prefix) :].lstrip('/')}"
        return super().get_full_path(path)

    def get_localized_path(self, path: str) -> str:
        """Return the path of the mount."""
        return super().get_localized_path(self.get_full_path(path))


def _numbered(path: str, idx: int | None) -> str:
    return path if idx is None else f"{path}.{idx}"


@contextlib.contextmanager
def _temporary_folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="horovod-run-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _leave(folder: str) -> None:
    del folder
