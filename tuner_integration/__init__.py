"""KerasTuner integration of keras_xd: oracles and hypermodels that drive its search spaces.

The package needs the extra requirements of `pip install "keras_xd[tuner]"`; importing it does not.
"""
