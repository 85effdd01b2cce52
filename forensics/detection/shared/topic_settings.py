"""The settings of topics and brokers that were given at creation or changed while Kafka ran."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

# Kinds of events whose `detail` or `value` names such settings.
SETTING_KINDS = ("config_set", "topic_created")


def named_setting(row: Mapping[str, Any], setting: str) -> str | None:
    """Return the value of a setting that a line about a topic or broker names.

    >>> named_setting({"detail": "HashMap(a.b -> true, c -> 2)", "value": None}, "a.b")
    'true'
    >>> named_setting({"detail": None, "value": "{a.b=true, c=2}"}, "c")
    '2'
    >>> named_setting({"detail": "configs=[Config(name='a.b', value='1')]"}, "a.b")
    '1'
    >>> named_setting({"detail": "a.b to 7"}, "a.b"), named_setting({"detail": "a.b to 7"}, "b")
    ('7', None)
    """
    for text in (row.get("value"), row.get("detail")):
        if text and (match := _pattern(setting).search(text)):
            return match[1]
    return None


@cache
def _pattern(setting: str) -> re.Pattern[str]:
    between = r"""(?: to |=| -> |', value=)["']?"""
    return re.compile(rf"(?<![\w.-]){re.escape(setting)}{between}([\w.:-]+)")
