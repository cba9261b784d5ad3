"""What must not reach training although it was said: secrets and personal data, found by their shape.

A filter of last resort between store and training, not a proof of absence.
"""

import re

_PATTERNS = {
    "e-mail address": re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"),
    "private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "access key": re.compile(
        r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bAKIA[0-9A-Z]{16}\b|\bxox[abpr]-[\w-]{10,}"
    ),
    "password": re.compile(r"\b(?:password|passwd|api[_ -]?key|secret)\s*(?:is|=|:)\s*\S{6,}", re.IGNORECASE),
    "card or account number": re.compile(r"\b(?:\d[ -]?){13,19}\b|\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b"),
    "telephone number": re.compile(r"(?<!\w)\+\d{1,3}[ -]?(?:\d[ -]?){7,12}\b"),
}


def find_private(*texts: str | None) -> str | None:
    """What kind of private data the texts hold; None where none was found."""
    joined = "\n".join(text for text in texts if text)
    return next((name for name, pattern in _PATTERNS.items() if pattern.search(joined)), None)
