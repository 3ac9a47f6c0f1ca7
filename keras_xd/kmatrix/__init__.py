"""Structured (Kaleidoscope) matrices of any size: plans, constructions, folding, application."""

from keras_xd.kmatrix.constructions import butterflies_of as butterflies_of
from keras_xd.kmatrix.constructions import butterfly_dense as butterfly_dense
from keras_xd.kmatrix.constructions import dft as dft
from keras_xd.kmatrix.constructions import digit_reversal as digit_reversal
from keras_xd.kmatrix.constructions import identity as identity
from keras_xd.kmatrix.constructions import kmatrix_weights as kmatrix_weights
from keras_xd.kmatrix.constructions import permutation as permutation
from keras_xd.kmatrix.constructions import random_orthogonal as random_orthogonal
from keras_xd.kmatrix.constructions import random_unitary as random_unitary
from keras_xd.kmatrix.constructions import stage_shapes as stage_shapes
from keras_xd.kmatrix.kmatrix import KMatrix as KMatrix
from keras_xd.kmatrix.kmatrix import parameter_count as parameter_count
from keras_xd.kmatrix.product import Factor as Factor
from keras_xd.kmatrix.product import analysis as analysis
from keras_xd.kmatrix.product import fold as fold
from keras_xd.kmatrix.product import synthesis as synthesis
from keras_xd.kmatrix.radix import Plan as Plan
from keras_xd.kmatrix.radix import check_radix as check_radix
from keras_xd.kmatrix.radix import factorise as factorise
from keras_xd.kmatrix.radix import padded_size as padded_size
from keras_xd.kmatrix.radix import plan as plan
from keras_xd.kmatrix.radix import prime_factors as prime_factors
