"""The ways in which a run ends early."""


class InputError(Exception):
    """The input is wrong: one line that says where, what, and what is allowed."""


class InvalidValueError(InputError):
    """A value that its key can never have, whatever the other keys say."""


class DeadlockError(InputError):
    """A program that can make no progress; the message names the cycle of waits."""
