"""What settings allow to go wrong: a finding for each that mattered, one for all mere advice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from forensics.detection.context import DetectionContext, Row, by_time
from forensics.lib.text_format import quantity
from forensics.run_output.findings import Finding

_MAX_NAMED = 3
# How many lines of each risk are kept; more of them say the same.
MAX_LINES = 200


@dataclass
class SettingRisk:
    """One thing that settings allow to go wrong, with the lines that show them."""

    name: str
    setting: str
    value: str
    lines: list[Row]
    topics: set[str] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    clients: set[str] = field(default_factory=set)
    # what happened because of it; empty if nothing is seen
    outcome: str = ""

    @property
    def about(self) -> str:
        """The topics, clients or brokers that it concerns."""
        brokers = {f"broker {broker}" for broker in self.brokers}
        return _some(self.clients) or _some(self.topics) or _some(brokers) or "the cluster"


class RiskText(NamedTuple):
    """What is said of a risk; of `{about}`, `{setting}` and `{value}` in the title."""

    title: str
    explanation: str
    advice: str
    # harmless by itself: it is a finding of its own only where something came of it
    advisory: bool = False


def risk_findings(
    context: DetectionContext,
    detector: str,
    risks: Iterable[SettingRisk],
    texts: Mapping[str, RiskText],
) -> Iterator[Finding]:
    """Yield a finding for each risk that is one by itself or that mattered, and one of advice."""
    limits = context.limits[detector]
    advice: list[SettingRisk] = []
    for risk in (risk for risk in risks if risk.lines):
        text = texts[risk.name]
        if text.advisory and not risk.outcome:
            advice.append(risk)
            continue
        level = "advised" if text.advisory else "met" if risk.outcome else "unmet"
        said = text.explanation + (f" It happened: {risk.outcome}." if risk.outcome else "")
        why = f"{risk.setting} = {risk.value}" + (f"; {risk.outcome}" if risk.outcome else "")
        actions = [*_commands(context, risk), text.advice]
        title = _title(risk, texts)
        yield _finding(context, detector, limits[level], [risk], title, said, actions, why)
    if advice:
        count = quantity(len(advice), "setting")
        explanation = "\n".join(f"{_title(risk, texts)}. {texts[risk.name].explanation}"
                                for risk in advice)  # fmt: skip
        why = "; ".join(f"{risk.setting} = {risk.value}" for risk in advice)
        actions = [texts[risk.name].advice for risk in advice]
        titles = "; ".join(_title(risk, texts) for risk in advice)
        title = f"{count} could be safer: {titles}"
        yield _finding(
            context, detector, limits["advice"], advice, title, explanation, actions, why
        )


def _finding(  # noqa: PLR0913, PLR0917
    context: DetectionContext, detector: str, severity: str, risks: list[SettingRisk], title: str,
    explanation: str, actions: list[str], why: str,
) -> Finding:  # fmt: skip
    lines = sorted((row for risk in risks for row in risk.lines[:MAX_LINES]), key=by_time)
    first, several = risks[0], len(risks) > 1
    return context.finding(
        detector,
        severity,
        title,
        lines[0]["at"],
        lines[-1]["at"],
        lines,
        brokers=sorted({broker for risk in risks for broker in risk.brokers}),
        clients=sorted({client for risk in risks for client in risk.clients}),
        measures={
            "risk": "advice" if several else first.name,
            "risks": [risk.name for risk in risks],
            "setting": None if several else first.setting,
            "value": None if several else first.value,
            "topics": sorted({topic for risk in risks for topic in risk.topics}),
            "met": "" if several else first.outcome,
        },
        explanation=explanation,
        actions=actions,
        why=why,
        doubts=_DOUBTS,
    )


def _title(risk: SettingRisk, texts: Mapping[str, RiskText]) -> str:
    return texts[risk.name].title.format(about=risk.about, value=risk.value, setting=risk.setting)


def _commands(context: DetectionContext, risk: SettingRisk) -> list[str]:
    if risk.topics and not risk.clients:
        look = f"{context.commands.topic_config(min(risk.topics))}   # still so?"
        forbid = context.commands.unclean_election(min(risk.topics))
        is_unclean = risk.setting == "unclean.leader.election.enable"
        return [look, f"{forbid}   # forbids them"] if is_unclean else [look]
    if risk.brokers:
        broker = min(risk.brokers)
        return [f"{context.commands.broker_config(broker, risk.setting)}   # still so?"]
    return []


def _some(names: Collection[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _MAX_NAMED} more" if len(ordered) > _MAX_NAMED else ""
    return ", ".join(ordered[:_MAX_NAMED]) + more


_DOUBTS = (
    "Settings changed while a process ran, or before these logs begin, may be missing here.",
)
