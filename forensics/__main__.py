"""The command `kafka-forensics`, also as `python -m forensics`.

Ctrl-C ends it with one word while its modules are loaded, as it does later.
"""

import os
import sys

try:
    from forensics.cli.app import main
except KeyboardInterrupt:
    sys.stderr.write("interrupted\n")
    # Nothing is open yet; what other modules do at the end would only come in the way.
    os._exit(130)

if __name__ == "__main__":
    main()
