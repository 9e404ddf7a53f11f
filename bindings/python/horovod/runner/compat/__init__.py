"""Horovod's internals that other programs import. Ours needs none of them.

What is here
    A program that starts a job's processes by means of its own, as Horovod's launchers do, finds what it needs:

    - ``network``: services that answer requests of who proves a secret, and clients; messages are pickled objects
    - ``driver_service``, ``task_service``, ``task_fn``: tasks that register, find one another, and run a command each
    - ``compute_service``: where a data service's dispatchers and workers register
    - ``http_server``, ``http_client``: the rendezvous of the engines, and values by key
    - ``driver``, ``registration``, ``rendezvous``, ``callers_job``, ``notification``: an elastic job whose workers the
      caller starts
    - ``safe_shell_exec``, ``streams``, ``secret``: commands that leave nothing behind, text between threads, the secret

Names
    Each module is the one that Horovod's name gives, which a module of two lines there sees to: what a program replaces
    in ``horovod.runner.common.util.network`` is replaced here. Those names stay; names and places here may change.
    docs/compatibility.md says what differs from Horovod's.

Rules
    - Nothing of ours imports this folder, or those names, but what tests/structure/arrows.py lists: Horovod's data
      service for TensorFlow, which is made of them, and a worker that an ``ElasticDriver``'s caller has started.
    - This folder uses ours: the control of elastic jobs (``horovod.runner.elastic``), the door that bounds strangers
      (``horovod.runner.util.door``), the proof and the messages (``horovod.runner.util.wire``).
    - A service holds for a stranger what docs/security.md says, and ends after the answers under way.
    - Whoever has the secret may run any code in a service: bodies are pickles.
"""
