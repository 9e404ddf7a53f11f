"""Services of Horovod's launchers."""
