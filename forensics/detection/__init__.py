"""From history to findings: detectors, their context, and the verdict.

Detectors of your own import `Finding` from here.
"""

from forensics.run_output.findings import Finding

__all__ = ["Finding"]
