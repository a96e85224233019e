#!/usr/bin/env python3
"""Reads and writes uids as docs/format.md specifies, and checks that by the vectors in docs/data/format.json.

Usage: python3 docs/format.py
"""

import json
import re
import struct
from pathlib import Path
from typing import NamedTuple

MAX_UID = 2**63 - 1
MAX_MILLIS = 2**63 - 1
DIGITS = "0123456789"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Refused(Exception):
    """Not a uid, layout or field; the argument says why."""


# Text forms: the digits that are written, how many, and more digits that are read.

class Form(NamedTuple):
    digits: str
    length: int
    more: dict


def values(digits):
    return {digit: value for value, digit in enumerate(digits)}


FORMS = {
    "dec": Form(DIGITS, 1, {}),
    "hex": Form(DIGITS + "abcdef", 16, {digit: 10 + n for n, digit in enumerate("ABCDEF")}),
    "base62": Form(DIGITS + UPPER + UPPER.lower(), 11, {}),
    "base32": Form(CROCKFORD, 13, values(CROCKFORD.lower()) | dict.fromkeys("IiLl", 1) | dict.fromkeys("Oo", 0)),
}


def write(form, uid):
    digits, length, _ = FORMS[form]
    text = ""
    while uid or len(text) < length:
        uid, digit = divmod(uid, len(digits))
        text = digits[digit] + text
    return "0x" + text if form == "hex" else text


def read(form, text):
    if form in ("dec", "hex") and text[:2] in ("0x", "0X"):
        form, text = "hex", text[2:]
    digits, _, more = FORMS[form]
    known = values(digits) | more
    if not text:
        raise Refused("empty")
    number = 0
    for character in text:
        if character not in known:
            raise Refused("character")
        number = number * len(digits) + known[character]
    return in_range(number)


def in_range(number):
    if not 0 <= number <= MAX_UID:
        raise Refused("range")
    return number


def write_binary(uid):
    return struct.pack("<Q", uid)


def read_binary(data):
    if len(data) != 8:
        raise Refused("length")
    return in_range(struct.unpack("<Q", data)[0])


def read_json(text):
    # A number with a fraction, an exponent or the value -0 is no whole number.
    try:
        value = json.loads(text, parse_int=lambda digits: -0.0 if digits == "-0" else int(digits))
    except ValueError:
        raise Refused("json") from None
    if not isinstance(value, dict):
        return read_value(value)
    uids = {read_value(value[name]) for name in ("uid", "uid_str", "id", "id_str") if value.get(name) is not None}
    if len(uids) > 1:
        raise Refused("differ")
    return uids.pop() if uids else read_value(None)


def read_value(value):
    if isinstance(value, str):
        return read("dec", value)
    if type(value) is not int:
        raise Refused("type")
    return in_range(value)


# Layouts.

class Fields(NamedTuple):
    tick: int
    worker_id: int
    sequence: int


class Layout:
    def __init__(self, text):
        match = re.fullmatch(r"([0-9]+)/([0-9]+)/([0-9]+) in (s|ms) since (.*)", text)
        if not match:
            raise Refused("text")
        self.bits = tuple(int(bits) for bits in match.groups()[:3])
        if min(self.bits) < 1 or sum(self.bits) > 63:
            raise Refused("bits")
        self.tick_millis = {"s": 1_000, "ms": 1}[match[4]]
        self.epoch = read_time(match[5])
        self.max_uid = (1 << sum(self.bits)) - 1

    def compose(self, fields):
        uid = 0
        for name, value, bits in zip(fields._fields, fields, self.bits):
            if not 0 <= value < 1 << bits:
                raise Refused(name)
            uid = uid << bits | value
        return uid

    def decode(self, uid):
        if not 0 <= uid <= self.max_uid:
            raise Refused("layout")
        _, worker, sequence = self.bits
        return Fields(uid >> worker + sequence, uid >> sequence & (1 << worker) - 1, uid & (1 << sequence) - 1)

    def time_of(self, tick):
        return min(self.epoch + tick * self.tick_millis, MAX_MILLIS)

    def last_instant(self):
        return min(self.epoch + (self.tick_millis << self.bits[0]) - 1, MAX_MILLIS)

    def json(self, uid, has_datacenters=False):
        fields = self.decode(uid)
        line = {"uid": str(uid), "timestamp": write_time(self.time_of(fields.tick))}
        if has_datacenters:
            line |= {"datacenter_id": fields.worker_id >> 5, "worker_id": fields.worker_id & 31}
        else:
            line["worker_id"] = fields.worker_id
        line["sequence"] = fields.sequence
        return json.dumps(line, separators=(",", ":"))


# Times: milliseconds since 1970. A day number counts from 0000-03-01, so that a leap day ends its year.

DAY = 86_400_000
DAYS_TO_1970 = 719_468


def write_time(millis):
    days, millis = divmod(millis, DAY)
    era, day = divmod(days + DAYS_TO_1970, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    year += era * 400 + (month >= 10)
    month = month - 9 if month >= 10 else month + 3
    seconds, millis = divmod(millis, 1_000)
    date = f"{year:04}" if 0 <= year <= 9999 else f"{year:+07}"
    fraction = f".{millis:03}".rstrip("0") if millis else ""
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{date}-{month:02}-{day:02}T{clock}{fraction}Z"


def read_time(text):
    """Reads what write_time writes."""
    match = re.fullmatch(r"([0-9]{4}|[+-][0-9]{6,})-(..)-(..)T(..):(..):(..)(\.[0-9]{1,3})?Z", text)
    if not match:
        raise Refused("epoch")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    millis = int((match[7] or ".")[1:].ljust(3, "0"))
    if month < 3:
        year, month = year - 1, month + 12
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 1
    return (days - DAYS_TO_1970) * DAY + ((hour * 60 + minute) * 60 + second) * 1_000 + millis


# The vectors.

def same(what, actual, expected):
    assert actual == expected, f"{what}: {actual!r} instead of {expected!r}"


def refuses(what, why, function, *arguments):
    try:
        result = function(*arguments)
    except Refused as refused:
        same(what, str(refused), why)
    else:
        raise AssertionError(f"{what}: not refused, but {result!r}")


def read_form(form, text):
    if form == "binary":
        return read_binary(bytes.fromhex(text))
    return read_json(text) if form == "json" else read(form, text)


def check(vectors):
    layouts = {}
    for vector in vectors["layouts"]:
        layout = layouts[vector["name"]] = Layout(vector["layout"])
        same(vector, "/".join(map(str, layout.bits)), vector["bits"])
        same(vector, (layout.tick_millis, layout.epoch), (vector["tick_millis"], int(vector["epoch_millis"])))
        same(vector, str(layout.max_uid), vector["max_uid"])
        same(vector, write_time(layout.last_instant()), vector["last_instant"])
    for vector in vectors["refused_layouts"]:
        refuses(vector, vector["why"], Layout, vector["layout"])
    for vector in vectors["uids"]:
        layout, uid = layouts[vector["layout"]], int(vector["uid"])
        fields = Fields(*(int(vector[name]) for name in Fields._fields))
        same(vector, layout.compose(fields), uid)
        same(vector, layout.decode(uid), fields)
        same(vector, write_time(layout.time_of(fields.tick)), vector["time"])
        same(vector, write("dec", uid), vector["uid"])
        for form in ("hex", "base62", "base32"):
            same(vector, write(form, uid), vector[form])
        same(vector, write_binary(uid).hex(), vector["binary"])
        same(vector, layout.json(uid, vector["layout"] == "snowflake"), vector["json"])
        for form in ("hex", "base62", "base32", "binary", "json"):
            same(vector, read_form(form, vector[form]), uid)
        same(vector, read("dec", vector["uid"]), uid)
    for vector in vectors["refused_fields"]:
        fields = Fields(*(int(vector[name]) for name in Fields._fields))
        refuses(vector, vector["why"], layouts[vector["layout"]].compose, fields)
    for vector in vectors["refused_uids"]:
        refuses(vector, "layout", layouts[vector["layout"]].decode, int(vector["uid"]))
    for vector in vectors["read"]:
        same(vector, read_form(vector["form"], vector["text"]), int(vector["uid"]))
    for vector in vectors["refused"]:
        refuses(vector, vector["why"], read_form, vector["form"], vector["text"])
    uids = sorted({int(vector["uid"]) for vector in vectors["uids"]})
    for form in ("hex", "base62", "base32"):
        texts = [write(form, uid) for uid in uids]
        same(f"the order of {form}", sorted(texts), texts)


if __name__ == "__main__":
    path = Path(__file__).parent / "data" / "format.json"
    vectors = json.loads(path.read_text(encoding="utf-8"))
    check(vectors)
    print(sum(map(len, vectors.values())), "vectors hold")
