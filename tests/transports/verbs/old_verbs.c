/* Stands in for a libibverbs from before the functions that the transport needs. */
int ibv_fork_init(void);
int ibv_fork_init(void) { return 0; }
