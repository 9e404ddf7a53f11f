/* A double of what Open MPI 4.1 did when a rank died (it takes a lock of an end point twice): preloaded into all ranks
 * of a job on one machine, it keeps a thread of each survivor inside MPI for ever. STUCK names the thread: "holder",
 * whoever drives a launch, or "pump". It stands in front of opal_progress, which Open MPI's own calls go through.
 *
 * After arm(), the last rank dies in its next call for a launch, when each of the others has made one. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int number_of(const char* name) { return atoi(getenv(name)); }
static int survivors;     /* how many there are */
static int victim = -1;   /* a survivor's connection to the last rank, which hangs up with that */
static int listener = -1; /* the last rank's, where they come */
static atomic_int is_armed, has_told, is_stuck;

void roda_test_arm(void) { is_armed = 1; }
void roda_test_await_stuck(void) {
  while (!is_stuck) usleep(1000);
}

__attribute__((constructor)) static void begin(void) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_un address = {AF_UNIX, {0}}; /* a name that begins with 0 is in no file system */
  snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "roda-mpi-stuck-%s", getenv("PMIX_NAMESPACE"));
  survivors = number_of("OMPI_COMM_WORLD_SIZE") - 1;
  if (number_of("OMPI_COMM_WORLD_RANK") == survivors) {
    listener = fd;
    if (bind(fd, (struct sockaddr*)&address, sizeof address) != 0 || listen(fd, survivors) != 0) abort();
  } else {
    victim = fd;
    while (connect(fd, (struct sockaddr*)&address, sizeof address) != 0) usleep(1000);
  }
}

static void die_with_all_under_way(void) {
  for (int i = 0; i < survivors; ++i) {
    char byte;
    if (read(accept(listener, NULL, NULL), &byte, 1) != 1) abort();
  }
  raise(SIGKILL);
}

int opal_progress(void) {
  static int (*_Atomic real)(void);
  if (real == NULL) real = __extension__(int (*)(void)) dlsym(RTLD_NEXT, "opal_progress");
  if (!is_armed) return real();
  char thread[16] = "";
  pthread_getname_np(pthread_self(), thread, sizeof thread);
  const int is_pump = strcmp(thread, "roda-mpi-pump") == 0;
  if (!is_pump && listener >= 0) die_with_all_under_way();
  if (!is_pump && !atomic_exchange(&has_told, 1) && write(victim, "", 1) != 1) abort();
  struct pollfd end = {victim, POLLIN, 0};
  const int is_meant = is_pump == (strcmp(getenv("STUCK"), "pump") == 0);
  while (is_meant && victim >= 0 && poll(&end, 1, 0) > 0) {
    is_stuck = 1;
    pause();
  }
  return real();
}
