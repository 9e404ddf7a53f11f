/* What roda_exchange.get takes in place of a group rank, where `reserved` of the exchange has RODA_EXCHANGE_ALL: one
 * request instead of one for each member. A key is read in this way or by ranks. */
#pragma once

#include <roda/abi/host.h>

#define RODA_EXCHANGE_ALL 1u

typedef enum roda_exchange_of {
  /* The values of all members, of one length, back to back by group rank; *bytes is the length of all of them, on
   * entry already. RODA_IN_PROGRESS until all are there. Each member may have them once. */
  RODA_OF_ALL = -1,
  /* For the text of an error: the lowest group rank, an int32_t, that has put nothing under a key of RODA_OF_ALL; -1 if
   * all have or it can't be told. May block, for a second at most. */
  RODA_OF_MISSING = -2,
} roda_exchange_of;
