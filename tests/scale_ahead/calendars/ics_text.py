"""Texts of iCal calendars."""

from __future__ import annotations


def event(*lines: str, uid: str = "1") -> str:
    return "\r\n".join(["BEGIN:VEVENT", f"UID:{uid}", "DTSTAMP:20260101T000000Z", *lines, "END:VEVENT"])


def calendar(*events: str, head: str = "") -> str:
    top = ["BEGIN:VCALENDAR", "PRODID:-//test//test//EN", "VERSION:2.0", *([head] if head else [])]
    return "\r\n".join([*top, *events, "END:VCALENDAR"]) + "\r\n"
