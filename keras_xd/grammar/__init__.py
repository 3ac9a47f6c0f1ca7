"""Architectures as terms of context-free grammars: parse, count, sample, vary, build."""

from keras_xd.core.moved_names import attribute_error as _attribute_error
from keras_xd.grammar import spaces
from keras_xd.grammar.balance import growth
from keras_xd.grammar.building import build
from keras_xd.grammar.constraints import Connected, Downsamplings, InputDependent
from keras_xd.grammar.grammar import Grammar
from keras_xd.grammar.motifs import expand
from keras_xd.grammar.terms import parse
from keras_xd.grammar.topologies import Topology

__all__ = [
    "Connected",
    "Downsamplings",
    "Grammar",
    "InputDependent",
    "Topology",
    "build",
    "expand",
    "growth",
    "parse",
    "spaces",
]

# Public names of earlier versions.
_MOVED = {
    "NetworkGraph": "keras_xd.grammar.graphs.NetworkGraph",
    "TOPOLOGIES": "keras_xd.grammar.topologies.TOPOLOGIES",
    "Term": "keras_xd.grammar.terms.Term",
    "motif_terms": "keras_xd.grammar.motifs.motif_terms",
    "network_digest": "keras_xd.grammar.graphs.network_digest",
    "network_graph": "keras_xd.grammar.graphs.network_graph",
    "read_term": "keras_xd.grammar.parse",
}

__getattr__ = _attribute_error(__name__, _MOVED)
