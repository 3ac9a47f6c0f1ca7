"""Tests of the package, and the programs that they start."""

import os
import sys

# As if they were not installed, which `programs.start` asks for.
sys.modules.update(dict.fromkeys(os.environ.get("KERAS_XD_WITHOUT", "").split()))
