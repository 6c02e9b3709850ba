"""``dra-spawner history``: on SQLite and on a real PostgreSQL, by the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from dra_spawner.cli import main
from dra_spawner.history.database import HistoryDatabase
from dra_spawner.history.records import WaitCause
from dra_spawner.history.user_names import UserNameMode
from tests.all_of_them import all_of_them
from tests.history.conftest import postgresql, url
from tests.history.records import after, decision, launch, lead_time

__all__ = ["postgresql", "url"]

TABLE = "asked,user,profile,bound\n2026-03-02T09:00:00Z,ada,gpu,2026-03-02T09:00:05Z\n2026-03-02T09:01:00Z,bob,gpu,\n"
BAD = "2026-03-02T09:02:00Z,eve,gpu,2026-03-02T09:01:59Z\n"


class Command:
    """Runs commands on one database."""

    def __init__(self, url: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self.directory = directory
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, output and messages."""
        code: object
        try:
            code = main(["history", *arguments, "--url", self.url])
        except SystemExit as end:
            code = end.code
        found = self._capsys.readouterr()
        assert isinstance(code, int)
        return code, found.out, found.err

    def on(self, url: str) -> Command:
        """The same on another database."""
        return Command(url, self.directory, self._capsys)

    def file(self, text: str, name: str = "launches.csv") -> str:
        path = self.directory / name
        path.write_text(text)
        return str(path)

    def users(self) -> list[str]:
        """Of launches, the oldest first."""
        database = HistoryDatabase.open(self.url)
        found = [each.user for each in database.launches()]
        database.close()
        return found


@pytest.fixture
def command(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    return Command(url, tmp_path, capsys)


# --- import -----------------------------------------------------------------------------------------------------------


@pytest.mark.promise("`dra-spawner history import` can be repeated.")
def test_an_import_that_is_repeated_adds_nothing(command: Command) -> None:
    file = command.file(TABLE)
    assert command("import", "--from", "csv", file) == (0, "2 launches imported\n", "")
    ada, bob = command.users()
    assert "ada" not in (ada, bob)
    said = "0 launches imported\n2 launches left out, as the history has them already\n"
    assert command("import", "--from", "csv", file) == (0, said, "")
    assert command.users() == [ada, bob]


def test_with_a_bad_row_nothing_is_imported_unless_bad_rows_are_skipped(command: Command) -> None:
    file = command.file(TABLE + BAD)
    problem = f"{file}: line 4: bound: found a time 1 s before asked; allowed: asked or later"
    code, out, err = command("import", "--from", "csv", file)
    assert (code, out) == (2, "")
    assert err == (
        f"{problem}\ndra-spawner history import: nothing is imported, as 1 of 3 rows are bad; with --skip-bad the"
        " others are imported\n"
    )
    assert command.users() == []
    code, out, err = command("import", "--from", "csv", "--skip-bad", file)
    assert (code, out, err) == (0, "2 launches imported\n1 bad rows skipped\n", f"{problem} (skipped)\n")
    assert len(command.users()) == 2


def test_of_very_many_bad_rows_the_first_are_named(command: Command) -> None:
    code, _, err = command("import", "--from", "csv", command.file(TABLE + 30 * BAD))
    lines = err.splitlines()
    assert code == 2
    assert len(lines) == 22
    assert lines[20].endswith("10 more bad rows")


def test_what_the_service_recorded_itself_is_not_imported_again(command: Command) -> None:
    database = HistoryDatabase.open(command.url)
    database.add([launch("pod", 30)])
    database.close()
    code, out, _ = command("import", "--from", "csv", command.file(TABLE))
    assert code == 0
    assert out.startswith("1 launches imported\n1 launches left out, as the service itself has recorded launches since")
    assert len(command.users()) == 2


def test_columns_of_another_program(command: Command) -> None:
    file = command.file("when,number,notes\n2026-03-02 10:00,3,x\n")
    more = ("--column", "asked=when", "--column", "count=number", "--ignore", "notes", "--time-zone", "Europe/Berlin")
    assert command("import", "--from", "csv", *more, "--profile", "gpu", file)[:2] == (0, "3 launches imported\n")
    database = HistoryDatabase.open(command.url)
    (counted,) = database.arrivals(after(0), after(60))
    database.close()
    assert (counted.profile, counted.count) == ("gpu", 3)


def test_an_event_log_and_an_answer_of_prometheus(command: Command) -> None:
    event = {"action": "start", "username": "ada", "servername": "", "__timestamp__": "2026-03-02T09:00:00+00:00Z"}
    log = command.file(json.dumps(event), "events.log")
    assert command("import", "--from", "jupyterhub", log)[:2] == (0, "1 launches imported\n")
    series = {
        "metric": {"__name__": "a_total"},
        "values": [[after(60).timestamp(), "1"], [after(120).timestamp(), "3"]],
    }
    answer = command.file(json.dumps({"data": {"resultType": "matrix", "result": [series]}}), "answer.json")
    assert command("import", "--from", "prometheus", answer)[:2] == (0, "2 launches imported\n")
    assert [bool(each) for each in command.users()] == [True, False, False]


# --- export -----------------------------------------------------------------------------------------------------------


def fill(url: str, mode: UserNameMode = UserNameMode.HASHED) -> None:
    database = HistoryDatabase.open(url, mode)
    held: Any = {"devices": {"gpu.example.com": 0.125, "nic.example.com": 1.0}, "cause": WaitCause.NONE}
    whole = launch("1", bound=after(1), running=after(2), ended=after(3.5), node="n", warm=True, **held)
    made = decision("1", 0, "jupyter-ada", subject="Pod hub/jupyter-ada", details={"a": 1})
    database.add([whole, launch("2", 60, user="", pod="", devices={}), lead_time(ready=after(40)), made])
    database.close()


def test_an_export_can_be_imported_into_another_history(command: Command, tmp_path: Path) -> None:
    fill(command.url)
    code, text, err = command("export")
    assert code == 0
    assert err.startswith("2 launches. The column user has keyed hashes, which cannot be turned back into names")
    first, second = csv.DictReader(io.StringIO(text))
    assert (first["asked"], first["ended"]) == ("2026-03-02T09:00:00Z", "2026-03-02T09:00:03.500000Z")
    assert (first["warm"], first["user_names"], second["warm"], second["user_names"]) == ("true", "hashed", "", "")
    assert (first["devices"], second["devices"]) == ("gpu.example.com=0.125 nic.example.com=1", "none")
    other = command.on(f"sqlite:///{tmp_path / 'other'}")
    assert other("import", "--from", "csv", command.file(text))[:2] == (0, "2 launches imported\n")
    assert other("export")[1] == text.replace(",service,", ",csv,")


def test_lines_of_json_of_all_records(command: Command) -> None:
    fill(command.url, UserNameMode.PLAIN)
    _, text, err = command("export", "--format", "json", "--end", "2026-03-02T09:00:30Z")
    (line,) = map(json.loads, text.splitlines())
    assert (line["user"], line["user_names"], line["running"]) == ("ada", "plain", "2026-03-02T09:00:02Z")
    assert "the users' own names: treat the output as personal data" in err
    (line,) = map(json.loads, command("export", "--records", "lead-times", "--format", "json")[1].splitlines())
    assert (line["kind"], line["created"], line["ready"]) == ("g4", "2026-03-02T09:00:00Z", "2026-03-02T09:00:40Z")
    (row,) = csv.DictReader(io.StringIO(command("export", "--records", "decisions")[1]))
    assert (row["subject"], json.loads(row["details"])) == ("Pod hub/jupyter-ada", {"a": 1})


# --- forget -----------------------------------------------------------------------------------------------------------


@pytest.mark.promise("`dra-spawner history forget` removes a user.")
def test_a_user_is_forgotten(command: Command) -> None:
    fill(command.url)
    assert command("forget", "ada") == (0, "1 launches and 1 decisions deleted\n", "")
    assert command("forget", "ada") == (0, "0 launches and 0 decisions deleted\n", "")
    assert command.users() == [""]


# --- which database ---------------------------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["history", *arguments])
    return code, capsys.readouterr().err


def test_the_services_configuration_names_the_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "dra_spawner_service_config.py"
    database = f"sqlite:///{tmp_path / 'history.sqlite'}"
    path.write_text(f"c.DRASpawnerService.history = {{'url': {database!r}, 'user_names': 'plain'}}\n")
    table = tmp_path / "launches.csv"
    table.write_text(TABLE)
    assert run(capsys, "import", "--from", "csv", str(table)) == (0, "")
    opened = HistoryDatabase.open(database)
    assert [each.user for each in opened.launches()] == ["ada", "bob"]
    opened.close()
    assert run(capsys, "export", "--config", str(path))[0] == 0
    path.write_text("c.DRASpawnerService.history = {'keep_days': -1}\n")
    code, err = run(capsys, "export")
    assert (code, err.split(": ", 2)[2]) == (2, "history.keep_days: found -1; allowed: a whole number from 0 to 3650\n")
    path.write_text("this is no Python")
    assert run(capsys, "export")[0] == 2


@all_of_them(
    "arguments, code, said",
    [
        (["export"], 2, "no database is configured"),
        (["export", "--url", "mysql://db/h"], 2, "the database's URL cannot be used; allowed: a URL that begins with"),
        (["export", "--url", "sqlite:///none/h"], 2, "there is no database none/h"),
        (["forget", "ada", "--url", "sqlite:///histroy"], 2, "there is no database histroy"),
        (["import", "--from", "csv", "--url", "sqlite:///none/h", "none.csv"], 1, "the database fails: "),
        (["export", "--config", "none.py"], 2, "there is no configuration file none.py"),
        (["forget", "ada", "--url", "postgresql://127.0.0.1:1/h"], 1, "the database fails: "),
        (
            ["import", "--from", "csv", "--url", "sqlite:///h", "--key-file", "none", "none.csv"],
            2,
            "the database cannot be used: the key cannot be read",
        ),
        (["import", "--from", "csv", "--url", "sqlite:///h", "none.csv"], 2, "none.csv: No such file or directory"),
        (
            ["import", "--from", "csv", "--url", "sqlite:///h", "--time-zone", "Mars", "none.csv"],
            2,
            "--time-zone: found 'Mars'",
        ),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    found, err = run(capsys, *arguments)
    assert found == code
    assert err.startswith(f"dra-spawner history {arguments[0]}: {said}")
    assert err.count("\n") == 1
    assert arguments[0] == "import" or not list(tmp_path.iterdir()), "no empty database is made"


@all_of_them(
    "arguments, said",
    [
        (["--begin", "yesterday"], "'yesterday' is not a time with its zone"),
        (["--begin", "2026-03-01T00:00:00"], "is not a time with its zone"),
        (["--step", "1"], "'1' is not a step like 60s, 5m or 1h"),
        (["--column", "asked"], "'asked' is not OURS=THEIRS"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["history", "import", "--from", "csv", "x", *arguments])
    assert refused.value.code == 2
    assert said in capsys.readouterr().err
