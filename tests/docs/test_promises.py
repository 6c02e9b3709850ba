"""docs/explanation/promises.md says what the marks of the tests say."""

from __future__ import annotations

from pathlib import Path

from tests.promises import PAGE, Promise, page, promises


def test_the_page_has_the_promises_of_the_tests() -> None:
    assert PAGE.read_text() == page(list(promises())), "`python -m tests.promises` writes it anew"


def test_no_promise_is_made_twice() -> None:
    sentences = [each.sentence for each in promises()]
    assert sorted(set(sentences)) == sorted(sentences)


def test_a_promise_is_found_by_its_mark(tmp_path: Path) -> None:
    module = '@pytest.mark.promise("It works.")\nasync def test_it():\n    pass\n\n\ndef test_another():\n    pass\n'
    (tmp_path / "test_something.py").write_text(module)
    assert list(promises(tmp_path)) == [Promise("test_something.py", 2, "test_it", "It works.")]
    assert "## Commands\n\n| promise | test |\n|---|---|\n| It works. | `test_something.py::test_it` |\n" in page(
        list(promises(tmp_path))
    )
