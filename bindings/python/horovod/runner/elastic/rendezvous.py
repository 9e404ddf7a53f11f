"""How a worker of an elastic job asks for its rank: in ours the launcher tells it, over a channel of its own."""

from __future__ import annotations

from typing import Any, NoReturn


def create_rendezvous_handler(driver: Any) -> NoReturn:
    """Raise NotImplementedError: there is no such handler here."""
    raise NotImplementedError(
        f"create_rendezvous_handler({driver!r}): Roda's rendezvous takes no handlers. "
        "horovod.runner.gloo_run.launch_gloo_elastic(command, settings, env) runs an elastic job."
    )
