"""From history to findings: detectors, their context, and the verdict."""
