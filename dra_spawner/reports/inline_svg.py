"""A picture of matplotlib as a part of a page: its colours are the page's, and it needs no style of its own.

A page with a strict content security policy refuses ``style`` attributes; presentation attributes are no styles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree import ElementTree

__all__ = ["inline_svg"]

_HREF: Final = "{http://www.w3.org/1999/xlink}href"
_REFERENCE: Final = re.compile(r"url\(#(?P<id>[^)]+)\)")
_PIXELS: Final = re.compile(r"(?P<size>[\d.]+)px")
#: What the page decides, or what only matplotlib needs.
_DROPPED: Final = frozenset({"metadata", "style"})


def inline_svg(svg: str, colors: Mapping[str, str], *, label: str, prefix: str) -> str:
    """The ``svg`` element of a picture, for HTML.

    Parameters
    ----------
    svg
        As matplotlib writes it, with text as text.
    colors
        What stands for each colour, in lower case: ``{"#000001": "var(--plot-ink)"}``.
    label
        What the picture shows, for people who do not see it.
    prefix
        Makes identifiers unique in the page.
    """
    # Written by matplotlib, not by others.
    root = ElementTree.fromstring(svg)  # noqa: S314
    used = set(_references(root))
    _clean(root, colors, used, prefix)
    view = root.get("viewBox", "")
    root.attrib.clear()
    root.attrib |= {"class": "plot", "role": "img", "aria-label": label, "viewBox": view, "stroke-linejoin": "round"}
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _references(root: ElementTree.Element) -> Iterator[str]:
    """Identifiers that other elements refer to."""
    for element in root.iter():
        if href := element.get(_HREF):
            yield href.removeprefix("#")
        for value in element.attrib.values():
            yield from (found["id"] for found in _REFERENCE.finditer(value))


def _clean(element: ElementTree.Element, colors: Mapping[str, str], used: set[str], prefix: str) -> None:
    # Without namespaces, which HTML does not write.
    element.tag = element.tag.rpartition("}")[2]
    attributes = dict(element.attrib)
    element.attrib.clear()
    for name, value in attributes.items():
        match name:
            case "id":
                if value in used:
                    element.set("id", prefix + value)
            case "style":
                for found, text in _declarations(value):
                    element.set(found, colors.get(text.lower(), text))
            case _ if name == _HREF:
                element.set("href", f"#{prefix}{value.removeprefix('#')}")
            case _:
                element.set(name, _REFERENCE.sub(rf"url(#{prefix}\g<id>)", value))
    for child in list(element):
        if child.tag.rpartition("}")[2] in _DROPPED:
            element.remove(child)
        else:
            _clean(child, colors, used, prefix)


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    """Attributes that say what a style says; the page's font is taken."""
    for declaration in style.split(";"):
        name, _, value = declaration.partition(":")
        name, value = name.strip(), value.strip()
        if name in ("font", "font-size"):
            size = _PIXELS.search(value)
            if size is not None:
                yield "font-size", size["size"]
        elif name and not name.startswith("font"):
            yield name, value
