"""From history to findings: detectors, their context, and the verdict.

`Finding` stands here for detectors in packs.
"""

from forensics.run_output.findings import Finding as Finding
