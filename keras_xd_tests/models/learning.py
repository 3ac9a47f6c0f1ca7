"""Training of small networks in tests of models."""


def losses(model, inputs, targets, steps):
    """Train a compiled model by one batch again and again; return the loss of each step."""
    found = []
    for _ in range(steps):
        model.reset_metrics()
        found.append(float(model.train_on_batch(inputs, targets)))
    return found
