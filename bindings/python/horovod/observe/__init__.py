"""Tools that look at a job: ``roda-doctor PID``, ``roda-top`` and ``roda-trace``.

Nothing here loads the engine or a framework: the tools read what the ranks of a job leave in memory and in files.
"""
