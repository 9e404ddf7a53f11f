/* How a plugin asks not to be opened in every process: because its library takes signals, memory or descriptors as soon
 * as it is loaded, say, and hardly ever carries anything unasked.
 *
 * A plugin that exports a data symbol of this name, of any type, is opened when somebody names it: in
 * HOROVOD_CPU_OPERATIONS, HOROVOD_GPU_OPERATIONS, HOROVOD_SELECT or HOROVOD_CONTROLLER, or when a tool asks about it.
 */
#pragma once

#define RODA_ONLY_BY_NAME_SYMBOL "roda_only_by_name"
