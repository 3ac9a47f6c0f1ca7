"""Architectures as terms of context-free grammars: parse, count, sample, vary, build."""

from keras_xd.grammar import spaces as spaces
from keras_xd.grammar.building import build as build
from keras_xd.grammar.constraints import Connected as Connected
from keras_xd.grammar.constraints import Downsamplings as Downsamplings
from keras_xd.grammar.grammar import Grammar as Grammar
from keras_xd.grammar.graphs import NetworkGraph as NetworkGraph
from keras_xd.grammar.graphs import network_graph as network_graph
from keras_xd.grammar.graphs import operation_graph as operation_graph
from keras_xd.grammar.motifs import expand as expand
from keras_xd.grammar.motifs import motif_terms as motif_terms
from keras_xd.grammar.terms import Term as Term
from keras_xd.grammar.terms import read_term as read_term
from keras_xd.grammar.topologies import TOPOLOGIES as TOPOLOGIES
from keras_xd.grammar.topologies import Topology as Topology
