"""Estimators and models as files of Spark ML, alone or in a Pipeline."""

from __future__ import annotations

from typing import Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable, MLReader, MLWritable, MLWriter

from horovod.runner.common.util import codec

_FIELD = "pickled"
_LEFT_OUT = ("backend", "store")  # belong to the session; set them again after loading


class HorovodParamsWriter(MLWriter):
    """Writes parameters in one pickle: an optimizer stays that of its model."""

    def __init__(self, instance: Any) -> None:
        super().__init__()
        self.instance = instance

    def saveImpl(self, path: str) -> None:  # noqa: N802 (Spark's name)
        """Write below a path that Spark can write to."""
        given = {param.name: value for param, value in self.instance._paramMap.items() if param.name not in _LEFT_OUT}
        pickled = codec.dumps_base64(self.instance._packed(given))
        DefaultParamsWriter.saveMetadata(self.instance, path, self.sc, extraMetadata={_FIELD: pickled}, paramMap={})


class HorovodParamsReader(MLReader):
    """Reads what the writer wrote. Unpickling runs what the file says: read only files of those you trust."""

    def __init__(self, cls: Any) -> None:
        super().__init__()
        self._class = cls

    def load(self, path: str) -> Any:
        """Return the estimator or the model."""
        metadata = DefaultParamsReader.loadMetadata(path, self.sc)
        instance = self._class()
        instance._resetUid(metadata["uid"])
        return instance._set(**instance._unpacked(codec.loads_base64(metadata[_FIELD])))


class HorovodParamsIO(MLReadable, MLWritable):
    """Makes a class one that can be saved and loaded."""

    def write(self) -> Any:
        """Return the writer."""
        return HorovodParamsWriter(self)

    @classmethod
    def read(cls) -> Any:
        """Return the reader."""
        return HorovodParamsReader(cls)

    def _packed(self, values: dict[str, Any]) -> Any:
        """Return parameters as something that can be pickled."""
        return values

    def _unpacked(self, values: Any) -> dict[str, Any]:
        """Return the parameters of what :meth:`_packed` returned."""
        return values
