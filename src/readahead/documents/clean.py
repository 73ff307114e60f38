"""Takes out of a text what a reader cannot see; every removal is counted by kind.

This module knows nothing about formats, blocks or bytes.
"""

from __future__ import annotations

import re
from collections import Counter

_JOINING_SCRIPTS = (  # Arabic to Tibetan, Myanmar, Khmer, Mongolian, Arabic presentation forms
    "\u0600-\u08ff\u0900-\u0fff\u1000-\u109f\u1780-\u17ff\u1800-\u18af\ufb50-\ufdff\ufe70-\ufefe"
)
_EMOJI = "\u00a9\u00ae\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_INVISIBLES = (
    "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\U000e0000-\U000e007f"
)
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"

_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    r"|\x1b\][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)"  # OSC: window titles, links
    r"|\x1b[ -/]*[0-~]"
)
_LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x85\u2028\u2029]")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_INVISIBLE = re.compile(f"[{_INVISIBLES}]")
# Behind any selector alike: whichever of them is taken out below, what stays fits.
_JOINER = re.compile(
    f"\u200c(?<![{_JOINING_SCRIPTS}]\u200c)"
    f"|\u200d(?<![{_JOINING_SCRIPTS}]\u200d)(?!(?<=[{_EMOJI}{_SELECTORS}]\u200d)[{_EMOJI}])"
)
# One selector picks a glyph; more of them in a row smuggle bytes.
_SELECTOR = re.compile(f"(?<=[{_SELECTORS}])[{_SELECTORS}]")
_LIGATURES = {
    "\ufb00": "ff",
    "\ufb01": "fi",
    "\ufb02": "fl",
    "\ufb03": "ffi",
    "\ufb04": "ffl",
    "\ufb05": "st",
    "\ufb06": "st",
}
_LIGATURE = re.compile("[\ufb00-\ufb06]")

# One class of all characters that any of the above begins with: most texts hold none of them.
_SUSPECT = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ufdd0-\\ufdef\\ufffe\\uffff"
    f"{_INVISIBLES}{_SELECTORS}\u200c\u200d\u2028\u2029\ufb00-\ufb06]"
)


def clean_characters(text: str, removed: Counter[str]) -> str:
    """Return ``text`` without what a reader cannot see, and with ligatures spelled out.

    Removed: terminal escapes, control characters, zero-width, bidirectional and tag characters.
    Joiners survive where they shape what is seen: inside emoji, and after a letter of an Indic or
    Arabic script. A lone surrogate becomes U+FFFD. Cleaning twice changes nothing more.
    """
    if not _SUSPECT.search(text):
        return text
    text = _counted(_ANSI, "", text, removed, "control")
    text = _LINE_ENDS.sub("\n", text)
    text = _counted(_CONTROL, "", text, removed, "control")
    text = _counted(_SURROGATE, "\ufffd", text, removed, "surrogate")
    text = _counted(_INVISIBLE, "", text, removed, "invisible")
    text = _counted(_JOINER, "", text, removed, "invisible")
    text = _counted(_SELECTOR, "", text, removed, "invisible")
    removed["ligature"] += len(_LIGATURE.findall(text))
    return _LIGATURE.sub(lambda match: _LIGATURES[match[0]], text)


def _counted(
    pattern: re.Pattern[str], replacement: str, text: str, removed: Counter[str], kind: str
) -> str:
    text, count = pattern.subn(replacement, text)
    removed[kind] += count
    return text
