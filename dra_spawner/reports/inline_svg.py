"""A picture of matplotlib as a part of a page, with the page's colours and without styles.

A page with a strict content security policy refuses ``style`` attributes, but allows presentation attributes.
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
#: Elements that the page does not need.
_DROPPED: Final = frozenset({"metadata", "style"})


def inline_svg(svg: str, colors: Mapping[str, str], *, label: str, prefix: str) -> str:
    """The ``svg`` element of a picture, for HTML.

    Parameters
    ----------
    svg
        Output of matplotlib, with text as text.
    colors
        Replacement of each colour, in lower case: ``{"#000001": "var(--plot-ink)"}``.
    label
        Description of the picture, for screen readers.
    prefix
        Makes identifiers unique in the page.
    """
    # The XML is matplotlib's own, so it is trusted.
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
    # Without namespaces: HTML has none.
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
    """Presentation attributes with the content of a style; fonts are left out, as the page has its own."""
    for declaration in style.split(";"):
        name, _, value = declaration.partition(":")
        name, value = name.strip(), value.strip()
        if name in ("font", "font-size"):
            size = _PIXELS.search(value)
            if size is not None:
                yield "font-size", size["size"]
        elif name and not name.startswith("font"):
            yield name, value
