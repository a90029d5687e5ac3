"""Files of other tools, read as text and written as topology or experiment files."""
