"""The parts of mails are files of their own, however they are encoded."""

from __future__ import annotations

import io
from email.message import EmailMessage
from pathlib import Path

import pytest

from forensics.ingest.formats import sniff_format
from forensics.ingest.mail_reader import MailReader
from tests.ingest.sample_archives import LOGS
from tests.ingest.scans import scan

LOG = "".join((LOGS / "broker-1/server.log").read_text().splitlines(keepends=True)[:200])


def mail(coding: str = "base64") -> EmailMessage:
    one = EmailMessage()
    one["From"], one["To"], one["Subject"] = "ops@example.net", "kafka@example.net", "logs"
    one.set_content("see the log\nFrom here on\n")
    one.add_alternative("<p>see the log</p>", subtype="html")
    one.add_attachment(LOG, filename="server.log", cte=coding)
    one.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="page.png")
    return one


def forwarded() -> bytes:
    one = EmailMessage()
    one["From"], one["Subject"] = "lead@example.net", "fwd: logs"
    one.set_content("fwd\n")
    one.add_attachment(mail())
    return bytes(one)


MAILBOX = b"".join(
    b"From ops@example.net Fri Nov 20 02:2%d:00 2026\n%b\n" % (number, bytes(mail()))
    for number in range(2)
)
MAILS = {
    "base64": (bytes(mail()), ["text", "text.html", "server.log", "page.png"]),
    "quoted-printable": (
        bytes(mail("quoted-printable")), ["text", "text.html", "server.log", "page.png"],
    ),
    "returns": (
        bytes(mail()).replace(b"\n", b"\r\n"), ["text", "text.html", "server.log", "page.png"],
    ),
    "forwarded": (forwarded(), ["text", "text", "text.html", "server.log", "page.png"]),
    "mailbox": (MAILBOX, 2 * ["text", "text.html", "server.log", "page.png"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MAILS)
def test_each_part_has_its_name_and_its_text(name: str) -> None:
    data, names = MAILS[name]
    reader = MailReader(io.BytesIO(data))
    found = [(part, b"".join(iter(lambda: reader.read(1000), b""))) for part in reader]

    assert sniff_format(data[:4096]) == "mail"
    assert [part.name.decode() for part, _ in found] == names
    logs = [text.replace(b"\r\n", b"\n") for part, text in found if part.name == b"server.log"]
    assert [text.rstrip(b"\n") for text in logs] == names.count("server.log") * [
        LOG.rstrip("\n").encode()
    ]
    assert {part.name for part, _ in found if part.skipped} == {b"text.html", b"page.png"}
    assert reader.faults == []


def test_a_mail_that_ends_too_early_says_so() -> None:
    reader = MailReader(io.BytesIO(bytes(mail())[:5000]))
    parts = [part.name for part in reader]

    assert parts == [b"text", b"text.html", b"server.log"]
    assert reader.faults == ["the mail ends before its last part does"]


@pytest.mark.parametrize("coding", ["base64", "quoted-printable"])
def test_a_log_in_a_mail_tells_what_it_tells_as_a_file(tmp_path: Path, coding: str) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "server.log").write_text(LOG)
    (tmp_path / "case.eml").write_bytes(bytes(mail(coding)))
    plain, found = scan(tmp_path / "plain"), scan(tmp_path / "case.eml")

    assert len(plain.facts()) > 20
    assert found.facts() == plain.facts()
    (container,) = found.containers.values()
    assert (container.format, container.entries, container.read) == ("mail", 4, 2)
    assert container.left_out.total() == 2


@pytest.mark.parametrize(
    "head", [LOG[:4000], "To: a\nhello\n", f"From: a\nSubject: logs\n\n{LOG[:3000]}", "X: 1\nY: 2"]
)
def test_other_texts_are_no_mail(head: str) -> None:
    assert sniff_format(head.encode()) == "plain"


@pytest.mark.parametrize(
    "data",
    [
        b"From: a\nContent-Type: multipart/mixed; boundary=x\n\n" + b"--x\n\n" * 20_000,
        b"From: a\nSubject: b\nContent-Type: message/rfc822\n\n" * 5_000,
        b"From: a\nMIME-Version: 1.0\nContent-Transfer-Encoding: base64\n\n" + b"QQ" * 1_000_000,
        b"From: a\nMIME-Version: 1.0\nContent-Type: multipart/x; boundary=\n\n" + b"--\n" * 20_000,
    ],
)
def test_hostile_mails_come_to_an_end(data: bytes) -> None:
    reader = MailReader(io.BytesIO(data))

    assert sum(len(reader.read(1 << 16)) for _ in reader) <= len(data)
