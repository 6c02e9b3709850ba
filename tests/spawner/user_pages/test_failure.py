"""Actions of users after a failure."""

from dra_spawner.spawner.user_pages.failure import failure_html, spawn_link


def test_the_way_back_is_a_link():
    html = failure_html("All devices are in use.", "/hub/spawn/ada")
    assert html.startswith("All devices are in use.<span")
    assert 'href="/hub/spawn/ada">Back to the choices</a>' in html
    assert "free now" not in html
    assert ">Try again</a>" in failure_html("No.", "/hub/spawn/ada", has_choices=False)


def test_what_would_start_now_is_a_link():
    fields = {"profile": "slice", "profile-option-slice--m": "5Gi"}
    html = failure_html("No.", "/hub/spawn/ada", {"GPU slice, 5 GiB": fields, "CPU": {"profile": "cpu"}})
    assert "Start “GPU slice, 5 GiB”: free now</a>" in html
    assert html.index("5 GiB") < html.index("“CPU”")
    assert "profile=slice&amp;" in html


def test_a_link_escapes_its_parts():
    assert "&x" not in spawn_link("/hub/spawn/ada", {"profile": "a&x=1"})
    html = failure_html("<b>", '/hub/spawn/"><script>', {"<img src=x>": {"profile": '"><script>'}})
    assert "<script" not in html
    assert "<img" not in html
    assert "<b>" not in html
