/* Preloaded into a rank: MPI belongs to somebody else, who ends it at the process's exit, as mpi4py does. And
 * MPI_Finalize does not return, as happens when a rank has died: it gets no further than the attributes of
 * MPI_COMM_SELF, which the standard has it delete first, the last one set before the others. */
#include <mpi.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

static void end(void) { MPI_Finalize(); }

static int hang(MPI_Comm communicator, int key, void* value, void* extra) {
  (void)communicator, (void)key, (void)value, (void)extra;
  while (pause() != 0) continue;
  return MPI_SUCCESS;
}

__attribute__((constructor)) static void begin(void) {
  int level = MPI_THREAD_SINGLE, key = 0;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, hang, &key, NULL);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
  atexit(end);
}
