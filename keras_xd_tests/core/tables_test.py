from keras_xd.core.tables import aligned


def test_columns_are_as_wide_as_their_longest_cell():
    table = [("layer", "kind"), ("conv", "XDConv2D"), ("a", "")]
    assert aligned(table) == ["layer  kind", "-----  --------", "conv   XDConv2D", "a"]
