"""Texts that code around elastic jobs looks for."""

from __future__ import annotations

RESET_LIMIT_EXCEEDED_MESSAGE = "Horovod was shutdown because number of resets exceeded limit: {}."
