"""The command `kafka-forensics`, also as `python -m forensics`.

Ctrl-C and SIGTERM end it with one word while its modules are loaded, as they do later.
"""

import os
import signal
import sys
from contextlib import suppress

# Only a main thread may, and another one has no command to end.
with suppress(ValueError):
    signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    from forensics.cli.app import main
except KeyboardInterrupt:
    sys.stderr.write("interrupted\n")
    # Nothing is open yet; what other modules do at the end would only come in the way.
    os._exit(130)

if __name__ == "__main__":
    main()
