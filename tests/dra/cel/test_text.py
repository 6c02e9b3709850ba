"""Properties of texts: quoting is safe, and the compiler is total."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dra_spawner.dra.cel import CelCompileError, CelDevice, CelRuntimeError, cel_string_literal, compile_selector
from dra_spawner.dra.cel.syntax.literals import parse_string
from tests.all_of_them import all_of_them
from tests.dra.cel.devices import FISH
from tests.dra.cel.random_selectors import RandomSelectors

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
AWKWARD = ['"', "'", "\\", '\\"', '"""', "'''", "\n", "\r", "\x00", "\x7f", "\u2028", "\u202e", "é", "😀", "${x}", "//"]


@given(TEXTS)
@example('" || true || "')
@example('\\" || true || \\"')
@example("\\")
@example("".join(AWKWARD))
def test_a_quoted_text_is_that_text(text: str):
    literal = cel_string_literal(text)
    assert parse_string(literal) == text
    device = CelDevice.from_device("d", {"text": {"string": text}}, {})
    if len(literal.encode()) < 5000:
        assert compile_selector(f'device.attributes["d"].text == {literal}').matches(device)
        assert not compile_selector(f"{literal} != {literal}").matches(device)


@all_of_them("text", AWKWARD)
def test_quoted_awkward_texts_are_one_printable_line(text: str):
    literal = cel_string_literal(text)
    assert literal.isprintable()
    assert parse_string(literal) == text


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"], ids=ascii)
def test_lone_surrogates_cannot_be_quoted(text: str):
    with pytest.raises(ValueError, match="surrogate"):
        cel_string_literal(text)


@given(st.text())
def test_any_text_compiles_or_is_refused(text: str):
    with contextlib.suppress(CelCompileError):
        compile_selector(text)


# Parts of expressions, in any order.
_PIECES = r"""
device . attributes capacity [ ] ( ) { } ? : , ! - + * / % == != < <= > >= && || in true false null 1 2u 3.5
0x1F 'a' "b" b'c' r'd' x has all exists map filter cel bind optional of none orValue quantity semver matches
size format .? [? driver allowMultipleAllocations sortBy transformMap //
"""
PIECES = st.sampled_from(["\n", *_PIECES.split()])


@given(st.lists(PIECES, max_size=25), st.booleans())
def test_any_pieces_compile_or_are_refused(pieces: list[str], spaced: bool):
    try:
        selector = compile_selector((" " if spaced else "").join(pieces))
    except CelCompileError as error:
        assert error.column >= 1  # noqa: PT017
        assert error.line >= 1  # noqa: PT017
        return
    with contextlib.suppress(CelRuntimeError):
        assert selector.matches(FISH) in (True, False)


@given(st.integers(0, 2**32), st.floats(0, 0.5))
def test_random_selectors_only_raise_their_own_errors(seed: int, sloppiness: float):
    expression = RandomSelectors(seed, sloppiness=sloppiness).selector()
    with contextlib.suppress(CelCompileError, CelRuntimeError):
        assert compile_selector(expression).matches(FISH) in (True, False)
