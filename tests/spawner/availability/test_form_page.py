"""The HTML of the spawn form."""

from __future__ import annotations

import json
import re

from dra_spawner.placeholders.availability_state import AvailabilityState
from dra_spawner.spawner.availability.client import AvailabilityView
from dra_spawner.spawner.availability.form_page import FormPage, is_fancy_form, replacing_form
from dra_spawner.spawner.availability.shown import ShownAvailability
from tests.all_of_them import all_of_them

HOSTILE = "</script></select>'\"><script>alert(1)</script>"
FREE = ShownAvailability(AvailabilityState.FREE, "A GPU is free.")
NEVER = ShownAvailability(AvailabilityState.NEVER, "No GPU has so much.")


def profiles(slug="gpu", choice="5Gi"):
    return [
        {
            "slug": slug,
            "display_name": "<i>GPU</i>",
            "default": True,
            "profile_options": {
                "size": {
                    "display_name": "Size",
                    "choices": {"10Gi": {"display_name": "10 GiB", "default": True}, choice: {"display_name": "5 GiB"}},
                    "unlisted_choice": {"enabled": True, "display_name_in_choices": "Other...", "display_name": "Own"},
                }
            },
        },
        {"slug": "cpu", "display_name": "No device", "description": "<b>Nothing</b>"},
    ]


def page(view, *, address="/hub/dra-spawner/availability", **more):
    return FormPage(profiles(**more), view, address)


def data_of(form):
    (text,) = re.findall(r'id="dra-spawner-form-data">(.*?)</script>', form, re.DOTALL)
    return json.loads(text)


def badges(form):
    return re.findall(r'data-state="([^"]*)"[^>]*>([^<]*)</span>', form)


def options(form):
    return re.findall(r'<option value="([^"]*)" (selected)?(?: data-label="[^"]*")?>([^<]*)</option>', form)


def test_labels_beside_profiles_and_choices():
    form = page(AvailabilityView({"gpu": FREE, "gpu/size=5Gi": NEVER}, 1.0)).stock_form((), {})
    assert badges(form) == [("free", "free now"), ("unknown", "not known")]
    assert options(form) == [
        ("10Gi", "selected", "10 GiB · free now"),
        ("5Gi", "", "5 GiB · never: no GPU has so much"),
        ("unlisted-choice", "", "Other..."),
    ]
    assert "A GPU is free." in form
    assert "<i>GPU</i>" in form, "the administrator's HTML"
    assert form.count("aria-live") - form.count('"aria-live"') == 1, "only the chosen one is read out"
    data = data_of(form)
    assert list(data["choices"]) == ["gpu", "gpu/size=5Gi", "cpu"]
    assert data["profiles"] == {"gpu": [["size", "10Gi"]], "cpu": []}
    assert data["age_seconds"] == 1.0


def test_without_a_service_no_label_is_shown():
    form = page(None).stock_form((), {})
    assert badges(form) == []
    assert [text for _, _, text in options(form)] == ["10 GiB", "5 GiB", "Other..."]
    assert data_of(form) == {"profiles": {"gpu": [["size", "10Gi"]], "cpu": []}, "separator": " · "}


def test_the_last_options_are_chosen_and_the_profile_has_their_label():
    view = AvailabilityView({"gpu": FREE, "gpu/size=5Gi": NEVER}, 1.0)
    form = page(view).stock_form((), {"profile": "gpu", "size": "5Gi"})
    assert badges(form)[0] == ("never", "never: no GPU has so much")
    assert [value for value, selected, _ in options(form) if selected] == ["5Gi"]
    form = page(view).stock_form((), {"profile": "cpu"})
    checked = re.findall(r'value="(\w+)"\s+aria-labelledby="[^"]*"\s+aria-describedby="[^"]*"\s+checked', form)
    assert checked == ["cpu"]
    form = page(view).stock_form((), {"profile": "gpu", "size--unlisted-choice": '7Gi"'})
    assert [value for value, selected, _ in options(form) if selected] == ["unlisted-choice"]
    assert 'value="7Gi&#34;"' in form


def test_the_label_of_a_choice_depends_on_the_selected_values_of_other_options():
    listed = profiles()
    listed[0]["profile_options"] |= {
        "image": {"display_name": "Image", "choices": {"new": {"default": True}, "old": {}}},
        "note": {"display_name": "Note", "unlisted_choice": {"enabled": True, "display_name_in_choices": "Text"}},
    }
    known = {"gpu": FREE, "gpu/size=5Gi": FREE, "gpu/image=old": FREE, "gpu/size=5Gi,image=old": NEVER}
    view = AvailabilityView(known, 1.0)

    chosen = {"profile": "gpu", "size": "5Gi", "note--unlisted-choice": "text"}
    form = FormPage(listed, view, "").stock_form((), chosen)
    assert [text for _, _, text in options(form)] == ["10 GiB", "5 GiB", "Other...", "new", "old", "Text"]
    assert badges(form)[0] == ("unknown", "not known"), "the service knows nothing of free text"
    del listed[0]["profile_options"]["note"]
    form = FormPage(listed, view, "").stock_form((), {"profile": "gpu", "size": "5Gi"})
    assert [text for _, _, text in options(form)][3:] == ["new · free now", "old · never: no GPU has so much"]
    form = FormPage(listed, view, "").stock_form((), {"profile": "gpu", "image": "old", "size--unlisted-choice": "7Gi"})
    assert [text for _, _, text in options(form)][3:] == ["new", "old"]
    known.pop("gpu/size=5Gi,image=old")
    form = FormPage(listed, view, "").stock_form((), {"profile": "gpu", "size": "5Gi"})
    assert [text for _, _, text in options(form)][3:] == ["new · free now", "old"], "the script asks for it"


def test_hostile_text_stays_text():
    shown = ShownAvailability(AvailabilityState.NEVER, f"{HOSTILE}.")
    for slug, choice in ((HOSTILE, "5Gi"), ("gpu", HOSTILE)):
        view = AvailabilityView({slug: shown, f"{slug}/size={choice}": shown}, 1.0)
        made = page(view, slug=slug, choice=choice, address=f"/hub/{HOSTILE}")
        for text in (made.stock_form((), {"profile": slug, "size--unlisted-choice": HOSTILE}), made.live_script()):
            assert "alert(1)</script>" not in text
            assert data_of(text)["choices"][slug]["sentence"] == f"{HOSTILE}."
        labelled = made.labelled_profiles(with_profiles=True)
        assert "<script>" not in labelled[0]["description"]
        assert "<script>" not in labelled[0]["profile_options"]["size"]["choices"][choice]["display_name"]


@all_of_them("with_profiles", [True, False])
def test_other_forms_get_labels_as_text(with_profiles):
    made = page(AvailabilityView({"gpu": FREE, "gpu/size=5Gi": NEVER}, 1.0))
    first, second = made.labelled_profiles(with_profiles=with_profiles)
    assert first.get("description") == ("Availability: free now." if with_profiles else None)
    assert second["description"] == ("<b>Nothing</b> Availability: not known." if with_profiles else "<b>Nothing</b>")
    assert [each["display_name"] for each in first["profile_options"]["size"]["choices"].values()] == [
        "10 GiB · free now",
        "5 GiB · never: no GPU has so much",
    ]
    assert made.profiles == profiles(), "the list itself is unchanged"
    assert page(None).labelled_profiles(with_profiles=with_profiles) == profiles()


def test_an_administrators_template_is_found(tmp_path):
    assert replacing_form("", [str(tmp_path)]) is None
    assert replacing_form("<p>", [str(tmp_path)]) == "<p>"
    (tmp_path / "form.html").write_text('<script src="/hub/fancy-profiles/static/dist/form.js">')
    found = replacing_form("", [str(tmp_path)])
    assert found is not None
    assert is_fancy_form(found)


def test_an_administrators_style_is_used(tmp_path):
    (tmp_path / "style.css").write_text(".own { color: red }")
    assert ".own { color: red }" in page(None).stock_form((str(tmp_path),), {})
