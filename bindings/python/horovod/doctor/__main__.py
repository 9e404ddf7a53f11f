"""``python -m horovod.doctor``."""

import sys

from horovod.doctor import main

sys.exit(main())
