/* Stands in for a UCX that knows its version and nothing else: the headers' own, or one from before. */
#include <stdlib.h>
#include <ucp/api/ucp.h>

void ucp_get_version(unsigned* major, unsigned* minor, unsigned* release) {
  *major = UCP_API_MAJOR;
  *minor = UCP_API_MINOR - (getenv("RODA_TEST_OLDER_UCP") != NULL ? 1 : 0);
  *release = 7;
}
