"""SimPy events that the engine schedules itself, on a clock of integer picoseconds."""

from __future__ import annotations

from simpy import Environment, Event

_AFTER_THE_REST = 2  # SimPy's own priorities are 0 and 1


class Signal(Event):
    """An event that any number of processes wait for and that is set off once, now or after a delay."""

    def after(self, delay_ps: int) -> None:
        self._ok, self._value = True, None
        self.env.schedule(self, delay=delay_ps)

    def at_end_of_instant(self) -> None:
        """Set off at this time, once everything else that happens now has happened."""
        self._ok, self._value = True, None
        self.env.schedule(self, priority=_AFTER_THE_REST)


def call_after(env: Environment, delay_ps: int, function, argument) -> None:
    """Call ``function(argument)`` after a delay, without a process of its own."""
    signal = Signal(env)
    signal.callbacks.append(lambda _: function(argument))
    signal.after(delay_ps)
