"""The parts of the weekly page, each drawn from one view of a week."""
