"""Addresses of the internet protocol in text, told from times, versions and class names."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

__all__ = ["is_kept_host", "replace_addresses"]

_FOUR = re.compile(r"(?<![A-Za-z0-9.])(?:\d{1,3}\.){3}\d{1,3}(?![A-Za-z0-9]|\.\d)")
_SIX = re.compile(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4})(?:%\w+)?(?![\w:])"
)
_DIGITS = re.compile(r"\d\.\d")
# As clouds call hosts: ip-10-0-0-1.
_DASHED = re.compile(r"(?<![A-Za-z0-9])(ip|ec2)-((?:\d{1,3}-){3}\d{1,3})(?![A-Za-z0-9])")
_KEPT = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "null", "unresolved"})


def is_kept_host(name: str) -> bool:
    """Whether a host is every machine's own."""
    return name.lower() in _KEPT


def replace_addresses(text: str, pseudonym: Callable[[str], str]) -> str:
    """Put pseudonyms in the place of addresses; those of the machine itself stay."""

    def shown(found: re.Match[str]) -> str:
        plain, _, zone = found[0].partition("%")
        if not _is_address(plain):
            return found[0]
        name = pseudonym(ipaddress.ip_address(plain).compressed)
        return f"{name}%{zone}" if zone else name

    if _DIGITS.search(text):
        text = _FOUR.sub(shown, text)
    if "::" in text or text.count(":") > 6:
        text = _SIX.sub(shown, text)
    if "ip-" in text or "ec2-" in text:
        text = _DASHED.sub(lambda one: pseudonym(one[2].replace("-", ".")), text)
    return text


def _is_address(text: str) -> bool:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None) or found
    return not (mapped.is_loopback or mapped.is_unspecified)
