"""The former name of `forensics.detection`, for Python detectors in packs that still import it."""

from forensics.run_output.findings import Finding

__all__ = ["Finding"]
