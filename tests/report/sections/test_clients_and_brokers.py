"""What became of clients, brokers and the controller, as the page's tables tell it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forensics.report.sections import brokers, clients, controller
from forensics.run_output.findings import write_findings
from forensics.run_output.reader import load_run
from tests.report.sample_runs import at, document, finding, lanes, save


def stale(name: str, verdict: str, cause: str, seconds: float, **more: Any) -> dict[str, Any]:
    """Make one episode of stale metadata."""
    measures = {"errors": 3, "duration_s": seconds, "verdict": verdict, "cause": cause,
                "topics": ["orders"]}  # fmt: skip
    return finding(
        name, "stale-metadata", "low", clients=[f"app-{name}"], measures=measures, **more
    )


def test_episodes_stand_worst_first_and_those_without_a_move_apart(unclean: Path) -> None:
    found = [
        stale("F-1", "transient", "failover", 9.0),
        stale("F-2", "stuck", "broker_crash", 1.0),
        stale("F-3", "sustained", "reassignment", 30.0),
        stale("F-4", "transient", "none_seen", 1.0),
    ]
    write_findings(document(found), unclean / "findings.json")
    html = clients.render(load_run(unclean))
    order = [html.index(f'data-of="{name}"') for name in ("F-2", "F-3", "F-1", "F-4")]

    assert "4 episodes of stale metadata: 1 stuck, 1 sustained, 2 transient; half" in html
    assert order == sorted(order)
    assert order[2] < html.index("Suspicious: errors that no change of leaders explains") < order[3]
    assert "the addresses that brokers advertise" in html.replace("\n", " ")


def test_without_logs_of_clients_nothing_is_said_of_them(quiet: Path) -> None:
    assert "what clients saw is not known" in clients.render(load_run(quiet))


def test_many_episodes_are_ranked_by_client(unclean: Path) -> None:
    many = [stale(f"F-{number:02}", "transient", "failover", number) for number in range(11)]
    write_findings(document(many), unclean / "findings.json")

    assert "Clients with the most errors" in clients.render(load_run(unclean))


def test_a_first_start_is_no_return(unclean: Path) -> None:
    save(unclean, "lanes", [row for row in lanes() if row["broker"] == 3])

    html = brokers.render(load_run(unclean))

    assert "It was not seen to leave." in html
    assert '<article id="b/3" class="broker" data-kind="broker" data-broker="3">' in html


def test_the_worst_broker_stands_first(unclean: Path) -> None:
    html = brokers.render(load_run(unclean))

    assert html.index('id="b/1"') < html.index('id="b/2"') < html.index('id="b/3"')
    assert "3 brokers: broker 1, broker 2 left unplanned; 0 clean shutdowns." in html


def test_vacant_times_and_overlaps_of_controllers_are_told(unclean: Path) -> None:
    terms = [(1, 0, 20_000), (2, 25_000, 60_000), (3, 50_000, None)]
    save(unclean, "lanes", [
        {"node": f"controller-{node}", "role": "controller", "broker": node, "state": "active",
         "started_at": at(start), "ended_at": at(end)}
        for node, start, end in terms
    ])  # fmt: skip
    html = controller.render(load_run(unclean))

    assert "nobody was seen to lead for 5 s in 1 stretch between them." in html
    assert "nobody seen</th><td" in html
    assert "controller-2 and controller-3 both led from 11:38:30.000 to 11:38:40.000" in html


def test_before_its_first_line_a_controller_is_not_known(unclean: Path) -> None:
    save(unclean, "lanes", [
        {"node": "controller-1", "role": "controller", "broker": 1, "state": "active",
         "started_at": at(30_000), "ended_at": None}
    ])  # fmt: skip
    html = controller.render(load_run(unclean))

    assert "no time without a controller between them" in html
    assert "in the first 30 s of the logs none is known" in html


def test_no_controller_is_no_vacancy(quiet: Path) -> None:
    assert "No line says who was the active controller." in controller.render(load_run(quiet))
