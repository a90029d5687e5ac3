"""What each command does. Where HOME cannot be written matplotlib would say so on stderr, between the lines of the command."""

import logging

logging.getLogger("matplotlib").setLevel(logging.ERROR)
