"""Two numbers in one: the Horovod API that this package answers to, and Roda's own version after the plus sign."""

HOROVOD_API_VERSION = "0.28.1"
RODA_VERSION = "0.1.0"

__version__ = f"{HOROVOD_API_VERSION}+roda.{RODA_VERSION}"
