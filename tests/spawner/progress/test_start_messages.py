"""The progress page's list only grows, and nothing is in it twice."""

from dra_spawner.spawner.progress.start_messages import StartMessages


def event(uid):
    return {"metadata": {"uid": uid}, "message": uid}


def texts(timeline):
    return [entry["message"] for entry in timeline]


def test_messages_keep_their_position_among_events():
    messages = StartMessages("jupyterhub", "jupyter-ada")
    assert messages.with_events([]) == []
    assert texts(messages.with_events([event("a")])) == ["a"]
    messages.notify("All devices are in use.")
    assert texts(messages.with_events([event("a"), event("b")])) == ["a", "All devices are in use.", "b"]
    assert texts(messages.with_events([event("b")])) == ["a", "All devices are in use.", "b"]


def test_a_message_has_what_the_progress_page_reads():
    messages = StartMessages("jupyterhub", "jupyter-ada")
    messages.notify("No device.")
    (entry,) = messages.with_events([])
    assert entry["type"] == "Normal"
    assert entry["lastTimestamp"]
    assert entry["involvedObject"] == {"kind": "Pod", "namespace": "jupyterhub", "name": "jupyter-ada"}


def test_events_of_earlier_starts_are_not_shown():
    messages = StartMessages("jupyterhub", "jupyter-ada")
    before = {**event("before"), "reason": "Started"}
    first = messages.sentence
    messages.skip([before])
    messages.skip([before, event("of this start")])
    assert messages.with_events([before]) == []
    assert messages.sentence == first
    assert texts(messages.with_events([before, event("of this start")])) == ["of this start"]


def test_another_choice_is_said_until_the_start_is_over():
    messages = StartMessages("jupyterhub", "jupyter-ada")
    messages.took_instead("You get “Part”.", "This is “Part”.")
    assert texts(messages.with_events([])) == ["You get “Part”."]
    messages.found_place("gpu-0 on node-a")
    messages.notify("Your server runs.")
    assert messages.line() == "This is “Part”. Yours: gpu-0 on node-a. Your server runs."
