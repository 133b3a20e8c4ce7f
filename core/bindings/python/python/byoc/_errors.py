"""The exception of the module, and its warning."""

from __future__ import annotations


class Notice(UserWarning):
    """A warning of byoc."""


class Error(Exception):
    """An error of byoc: a stable code, one line that names the thing and the cause, and what can be done about it.

    The codes are those of the command line, listed in docs/errors.md.
    """

    code: str
    """Such as ``B701``."""
    message: str
    """One line."""
    hint: str | None
    """The remedy, where there is one."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(code, message, hint)
        self.code = code
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text}. {self.hint}" if self.hint else text
