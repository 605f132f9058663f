"""Errors that explane raises on purpose, and the exit codes they lead to.

    ExplaneError
    ├── CaptureError      the data can't be used (exit 1)
    └── UsageError        the call can't be carried out as asked (exit 2)

Every message is one line: path, reason, what to do. Anything else that escapes is a bug.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_DATA = 1
EXIT_USAGE = 2
EXIT_PARTIAL = 3
EXIT_INTERRUPTED = 130


class ExplaneError(Exception):
    """Base of all errors meant for the user.

    Args:
        subject: What it is about, usually a path.
        reason: What is wrong, one clause.
        remedy: What the user can do about it; may be empty.
        slug: Short fixed word of the kind of error; names its entry in docs/messages.md.
    """

    exit_code = EXIT_DATA

    def __init__(self, subject: object, reason: str, remedy: str = "", slug: str = "error"):
        self.subject = one_line(str(subject))
        self.reason = one_line(reason)
        self.remedy = one_line(remedy)
        self.slug = slug.replace("_", "-")
        text = f"{self.subject}: {self.reason}"
        super().__init__(f"{text}; {self.remedy}" if self.remedy else text)

    def __reduce__(self) -> tuple[type[ExplaneError], tuple[str, str, str, str]]:
        """Errors travel between processes."""
        return type(self), (self.subject, self.reason, self.remedy, self.slug)


class CaptureError(ExplaneError):
    """The capture can't be read or holds nothing that explane can analyse."""

    exit_code = EXIT_DATA


class UsageError(ExplaneError):
    """The command was called in a way that can't be carried out."""

    exit_code = EXIT_USAGE


def one_line(text: str, limit: int = 600) -> str:
    """Text without control characters (names in a capture are hostile), cut at a length."""
    clean = "".join(c if c.isprintable() else "�" for c in text.replace("\n", " "))
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
