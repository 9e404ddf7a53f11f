"""How an agent begins: a Python that gets the agent's text through its standard input."""

from __future__ import annotations

from importlib import resources

# Runs in the agent's Python: reads the agent's text from standard input and executes it.
_BOOT = """
import os
def take(count):
    data = b''
    while len(data) < count:
        chunk = os.read(0, count - len(data))
        if not chunk:
            raise SystemExit('horovodrun: no input: what stands for ssh must pass its input on (kubectl exec -i)')
        data += chunk
    return data
exec(compile(take(int(take(8))), 'roda-agent', 'exec'), {'__name__': 'roda_agent'})
"""

# Stands before the agent's own text: lets it import from the other file where no horovod is installed.
_WITH_HOST = """
import sys, types
for name in ('horovod', 'horovod.runner', 'horovod.runner.agent_host'):
    sys.modules[name] = types.ModuleType(name)
exec({text!r}, vars(sys.modules['horovod.runner.agent_host']))
"""


def framed(text: bytes | str) -> bytes:
    """Return what an agent reads as one text."""
    data = text.encode() if isinstance(text, str) else text
    return b"%08d" % len(data) + data


def boot_command(python: str) -> list[str]:
    """Return a command that becomes an agent when it reads :func:`agent_text` from standard input."""
    return [python, "-I", "-S", "-c", _BOOT]


def agent_text() -> bytes:
    """Return what makes an agent, framed."""
    here = resources.files("horovod.runner")
    host, agent = (here.joinpath(name).read_text(encoding="utf-8") for name in ("agent_host.py", "agent.py"))
    return framed(_WITH_HOST.format(text=host) + agent)
