"""All settings are in setup.cfg. Where the source tree may not be written, what setuptools leaves in it goes to a temporary folder."""

import os
import tempfile

from setuptools import setup

if os.access(".", os.W_OK):
    setup()
else:
    with tempfile.TemporaryDirectory() as folder:
        setup(options={"egg_info": {"egg_base": folder}, "build": {"build_base": folder}})
