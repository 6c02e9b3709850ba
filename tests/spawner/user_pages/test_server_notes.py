"""Notes about servers, of spawners and of records of the database."""

from types import SimpleNamespace

from dra_spawner.spawner.progress.server_record import ServerRecord
from dra_spawner.spawner.progress.session_time import SessionTime
from dra_spawner.spawner.user_pages.server_notes import ServerNote, server_notes


def user(*servers):
    return SimpleNamespace(all_spawners=lambda: iter(servers))


def parts(record: ServerRecord, trouble: str = "", note="", idle=None, kept="") -> SimpleNamespace:
    home = SimpleNamespace(
        record=record,
        trouble=trouble,
        device_note=lambda: note,
        session=lambda: record.session,
        idle_note=lambda: idle,
        kept_note=lambda: kept,
    )
    return SimpleNamespace(home=home)


def test_a_server_that_is_about_to_be_stopped_for_being_idle():
    for may_keep in (True, False):
        idle = {"sentence": "It is idle.", "stops_at": "", "may_keep": may_keep}
        running = SimpleNamespace(
            name="b", display_name="", active=True, ready=True, _dra=parts(ServerRecord(), idle=idle)
        )
        note = ServerNote("Server b", "It is idle.", is_idle=True, kept_as="b" if may_keep else None)
        assert server_notes(user(running)) == [note]
        running.ready = False
        assert server_notes(user(running)) == []


def test_a_server_that_is_known_from_the_database_alone():
    state = ServerRecord(failure="All devices are in use.").state()
    found = server_notes(user(SimpleNamespace(name="b", display_name="", state=state)))
    assert found == [ServerNote("Server b", "All devices are in use.", is_failure=True)]


def test_a_failure_outside_of_the_spawners_start():
    future = SimpleNamespace(exception=lambda: TimeoutError("The server did not answer"))
    failed = SimpleNamespace(name="", _dra=parts(ServerRecord()), active=False, _failed=True, _spawn_future=future)
    (found,) = server_notes(user(failed))
    assert (found.server, found.is_failure) == ("Your server", True)
    assert found.text == "The server did not start. Please try again, or tell your administrator."


def test_a_server_that_is_starting_has_no_note():
    starting = SimpleNamespace(name="", _dra=parts(ServerRecord(place="gpu-0 on a")), active=True, ready=False)
    assert server_notes(user(starting)) == []


def test_an_error_leaves_the_page_without_notes():
    assert server_notes(None) == []


def test_a_running_server_that_may_not_answer_keeps_its_devices():
    record, running = ServerRecord(place="gpu-0 on a"), {"active": True, "ready": True}
    lost = SimpleNamespace(name="", _dra=parts(record, "Machine a does not answer."), **running)
    failure, place = server_notes(user(lost))
    assert (failure.headline, failure.text) == ("Your server may not answer", "Machine a does not answer.")
    assert failure.is_failure
    assert not failure.was_ended
    assert place == ServerNote("Your server", "gpu-0 on a")
    assert server_notes(user(SimpleNamespace(name="", _dra=parts(record), **running))) == [place]
    closed = SimpleNamespace(name="", _dra=parts(record, note="It is taken out of use."), **running)
    assert [each.text for each in server_notes(user(closed))] == ["It is taken out of use.", place.text]


def test_the_end_of_a_running_server_is_said_from_the_beginning():
    for ran, is_urgent in ((0.0, False), (6600.0, True)):
        record = ServerRecord(session=SessionTime(7200, 900, ran))
        (found,) = server_notes(user(SimpleNamespace(name="", _dra=parts(record), active=True, ready=True)))
        assert found.text.startswith("It ends at ")
        assert (found.is_sentence, found.is_urgent, found.is_failure) == (True, is_urgent, False)


def test_what_a_running_server_has_instead_and_until_when_it_is_kept():
    record = ServerRecord(place="gpu-0 on a", instead="This is “Part” instead of “Whole”.")
    running = SimpleNamespace(name="", _dra=parts(record, kept="It is kept."), active=True, ready=True)
    assert server_notes(user(running)) == [
        ServerNote("Your server", "It is kept.", is_sentence=True),
        ServerNote("Your server", record.instead, is_sentence=True),
        ServerNote("Your server", record.place),
    ]
    running.ready = False
    assert server_notes(user(running)) == []
