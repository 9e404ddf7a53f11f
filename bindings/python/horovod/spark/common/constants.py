"""Words of a column's ``intermediate_format`` in metadata of Horovod's, and other constants of its estimators."""

ARRAY = "array"
CUSTOM_SPARSE = "custom_sparse_format"
NOCHANGE = "nochange"
METRIC_PRINT_FREQUENCY = 100
BYTES_PER_GIB = 1 << 30
TOTAL_BUFFER_MEMORY_CAP_GIB = 4
