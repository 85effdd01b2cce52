"""Detects formats by their first bytes, never by name."""

from __future__ import annotations

import codecs
import re
import zlib

# So many first bytes are looked at; a tar has its magic bytes at 257.
SNIFF_BYTES = 4096
TAR_BLOCK = 512
_TAR_MAGIC = slice(257, 262)
_TAR_CHECKSUM = slice(148, 156)

_MAGICS: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PK\x07\x08PK\x03\x04", "zip"),
    (b"PK00PK\x03\x04", "zip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x1f\x9d", "compress"),
    (b"!<arch>\n", "ar"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
# A frame that holds no data; both zstd and lz4 have it.
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", re.DOTALL)
# .lzma: properties, a power of two or three halves of one as dictionary, and a plausible length.
_LZMA = re.compile(
    rb"\x5d\0\0(?:[\x01\x02\x04\x08\x10\x20\x40\x80\x0c\x18\x30\x60\xc0\x03\x06]\0"
    rb"|\0[\x01\x02\x04\x08])(?:\xff{8}|.{5}\0\0\0)",
    re.DOTALL,
)

# Formats that are not read: their first bytes, their name, and the command that unpacks them.
_UNREAD: tuple[tuple[bytes, str, str], ...] = (
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it first (7z x FILE)"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it first (unrar x FILE)"),
    (b"\x89LZO\0\r\n\x1a\n", "lzop data", "unpack it first (lzop -d FILE)"),
    (b"LZIP", "lzip data", "unpack it first (lzip -d FILE)"),
    (b"LRZI", "lrzip data", "unpack it first (lrzip -d FILE)"),
    (b"\x02\x21\x4c\x18", "lz4 data of the old form", "unpack it first (lz4 -d FILE)"),
    (b"\xff\x06\0\0sNaPpY", "framed snappy data", "unpack it first (snzip -d FILE)"),
    (b"070701", "a cpio archive", "unpack it first (cpio -id < FILE)"),
    (b"070702", "a cpio archive", "unpack it first (cpio -id < FILE)"),
    (b"070707", "a cpio archive", "unpack it first (cpio -id < FILE)"),
    (b"\xc7\x71", "a cpio archive", "unpack it first (cpio -id < FILE)"),
    (b"\xed\xab\xee\xdb", "an RPM package", "unpack it first (rpm2cpio FILE | cpio -id)"),
    (b"MSCF\0\0\0\0", "a cabinet file", "unpack it first (cabextract FILE)"),
    (b"xar!", "a xar archive", "unpack it first (xar -xf FILE)"),
    (b"\x60\xea", "an ARJ archive", "unpack it first (arj x FILE)"),
    (b"hsqs", "a squashfs image", "unpack it first (unsquashfs FILE)"),
    (b"-----BEGIN PGP MESSAGE", "an encrypted PGP message", "decrypt it first (gpg -d FILE)"),
    (b"age-encryption.org/v1", "encrypted by age", "decrypt it first (age -d FILE)"),
    (b"Salted__", "encrypted by openssl", "decrypt it first (openssl enc -d)"),
    (b"PAR1", "a Parquet file", "it holds no log lines"),
    (b"JAVA PROFILE 1.0", "a heap dump", "it holds no log lines"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mac program", "it holds no log lines"),
)
# What a mail or a mailbox begins with, what its headers are, and those of encoded parts.
_MAIL = re.compile(
    rb"(?i)(?:From \S+ [^\n]*[0-9]\r?\n|(?:Return-Path|Received|Delivered-To|From|To|Cc|Subject|"
    rb"Date|Message-ID|MIME-Version|Content-Type|Reply-To|DKIM-Signature|Authentication-Results|"
    rb"ARC-[\w-]+|X-[\w-]+):[ \t][^\n]*\n(?:[ \t][^\n]*\n)*[A-Za-z][A-Za-z-]*:)"
)
_MAIL_HEADER = re.compile(rb"[!-9;-~]+:|[ \t]+\S|>?From |\Z")
_MAIL_ENCODED = re.compile(
    rb"(?im)^Content-(?:Transfer-Encoding:\s*(?:base64|quoted-printable)|Type:\s*multipart/)"
)
# LHA has its magic behind two bytes.
_LHA = re.compile(rb"..-lh[0-9d]-", re.DOTALL)
_PROGRAMS = (b"MZ", b"\x7fELF")
_TEXT_BYTES = bytes((9, 10, 13, 27, *range(32, 127)))
_ZEROS_OF_16 = {"utf-16-le": (1,), "utf-16-be": (0,)}
_ZEROS_OF_32 = {"utf-32-le": (1, 2, 3), "utf-32-be": (0, 1, 2)}
_LEAST_TEXT, _FEW_TEXTS = 16, 2
TEXT_FORMATS = frozenset(
    ("utf-8-sig", "utf-16", "utf-32", "cr", "zeros", *_ZEROS_OF_16, *_ZEROS_OF_32)
)  # fmt: skip


def sniff_format(head: bytes) -> str:
    r"""Return the name of the format that begins with these bytes.

    >>> sniff_format(bytes.fromhex("1f8b08")), sniff_format(b"[2026-11-18")
    ('gzip', 'plain')
    >>> sniff_format("[2026-11-18 11:38:51]".encode("utf-16-le")), sniff_format(b"a\rb\rc")
    ('utf-16-le', 'cr')
    """
    for magic, name in _MAGICS:
        if head.startswith(magic):
            return name
    if _SKIPPABLE.match(head):
        return _after_skippable(head)
    for fits, name in ((_BZIP2.match, "bzip2"), (is_tar_header, "tar"), (_LZMA.match, "lzma")):
        if fits(head):
            return name
    return "zlib" if _is_zlib(head) else _text_format(head)


def name_unread(head: bytes) -> str | None:
    """Return the sentence about a format that is known and not read; None for any other.

    >>> name_unread(b"7z" + bytes.fromhex("bcaf271c"))
    'it is a 7z archive, which is not read; unpack it first (7z x FILE)'
    """
    for magic, name, command in _UNREAD:
        if head.startswith(magic):
            verb = "" if name.startswith("encrypted by") else "it is "
            return f"{verb or 'it is '}{name}, which is not read; {command}"
    if _LHA.match(head):
        return "it is an LHA archive, which is not read; unpack it first (lha x FILE)"
    return None


def is_program(head: bytes) -> bool:
    """Return True for a program, in front of which or behind which a zip may lie."""
    return head.startswith(_PROGRAMS)


def is_tar_header(head: bytes) -> bool:
    """Return True if a tar begins here: by its magic bytes, or, as in version 7, its checksum."""
    if head[_TAR_MAGIC] == b"ustar":
        return True
    block = head[:TAR_BLOCK]
    return len(block) == TAR_BLOCK and block[0] > 32 and tar_checksum_fits(block)


def tar_checksum_fits(block: bytes) -> bool:
    """Compare the checksum in a tar header with that of its bytes, summed as any tar ever did."""
    digits = block[_TAR_CHECKSUM].strip(b" \0")
    try:
        given = int(digits, 8)
    except ValueError:
        return False
    total = sum(block) - sum(block[_TAR_CHECKSUM]) + 8 * 32
    if total == given:
        return True
    # Old tars summed signed bytes.
    signed = sum(1 for byte in block if byte > 127) - sum(
        1 for byte in block[_TAR_CHECKSUM] if byte > 127
    )
    return total - 256 * signed == given


def _after_skippable(head: bytes) -> str:
    """Look behind the frames without data for the first one that has some."""
    at = 0
    while _SKIPPABLE.match(head, at):
        at += 8 + int.from_bytes(head[at + 4 : at + 8], "little")
    return "lz4" if head[at : at + 4] == b"\x04\x22\x4d\x18" else "zstd"


def _is_zlib(head: bytes) -> bool:
    if len(head) < 8 or head[0] != 0x78 or int.from_bytes(head[:2], "big") % 31 or head[1] & 0x20:
        return False
    # Text may begin with these two bytes, too: the rest has to unpack.
    try:
        zlib.decompressobj().decompress(head, 64)
    except zlib.error:
        return False
    return True


def _is_mail(head: bytes) -> bool:
    """Return True if a mail begins here whose text is encoded, or that has several parts."""
    if not _MAIL.match(head):
        return False
    headers, found, _ = head.replace(b"\r\n", b"\n").partition(b"\n\n")
    if not all(
        _MAIL_HEADER.match(line) for line in headers.split(b"\n")[: -1 if not found else None]
    ):
        return False
    return not found or _MAIL_ENCODED.search(headers) is not None


def _text_format(head: bytes) -> str:
    """Tell how characters are coded where no mark says it, and lines that end in CR alone."""
    if _is_mail(head):
        return "mail"
    if b"\0" in head[:64]:
        for names, width in ((_ZEROS_OF_32, 4), (_ZEROS_OF_16, 2)):
            for name, zeros in names.items():
                if _is_wide(head, width, zeros):
                    return name
    elif b"\n" not in head and b"\r" in head.rstrip(b"\r"):
        return "cr"
    return "zeros" if _ends_in_zeros(head) else "plain"


def _ends_in_zeros(head: bytes) -> bool:
    """Return True if texts end in zeros instead of line breaks, as in GELF or `find -print0`."""
    texts = head.split(b"\0")[:-1]
    # A log that was cut off, or a program, has zeros one behind the other.
    if len(texts) < _FEW_TEXTS or head.count(b"\n") >= len(texts):
        return False
    longest = min(map(len, texts))
    return longest >= _LEAST_TEXT and not head.translate(
        None, _TEXT_BYTES + bytes(range(128, 256))
    ).strip(b"\0")


def _is_wide(head: bytes, width: int, zeros: tuple[int, ...]) -> bool:
    """Return True if most characters have zeros at some places and a letter at the other."""
    head = head[: len(head) // width * width]
    count = len(head) // width
    if count * width < _LEAST_TEXT:
        return False
    if any(head[at::width].count(0) < 0.7 * count for at in zeros):
        return False
    (letters,) = (head[at::width] for at in range(width) if at not in zeros)
    return len(letters) - len(letters.translate(None, _TEXT_BYTES)) > 0.7 * count
