"""Bytes become records: archives are opened, planned, unpacked and cut."""
