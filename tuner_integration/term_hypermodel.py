"""A KerasTuner hypermodel that gets the terms of its trial, parsed."""

import inspect

import keras_tuner


class TermHyperModel(keras_tuner.HyperModel):
    """Gives a hypermodel the terms of its trial."""

    def __init__(self, hypermodel, grammars: dict):
        super().__init__()
        _check_hypermodel(hypermodel, list(grammars))
        self.hypermodel = hypermodel
        self.grammars = grammars

    def declare_hyperparameters(self, hp):
        """Declare what the hypermodel declares."""
        if isinstance(self.hypermodel, keras_tuner.HyperModel):
            self.hypermodel.declare_hyperparameters(hp)

    def build(self, hp):
        """Return the model of the terms in `hp`."""
        terms = [grammar.parse(hp.get(name)) for name, grammar in self.grammars.items()]
        if isinstance(self.hypermodel, keras_tuner.HyperModel):
            return self.hypermodel.build(hp, *terms)
        return self.hypermodel(hp, *terms)

    def fit(self, hp, model, *args, **kwargs):
        """Train as the hypermodel does."""
        if isinstance(self.hypermodel, keras_tuner.HyperModel):
            return self.hypermodel.fit(hp, model, *args, **kwargs)
        return super().fit(hp, model, *args, **kwargs)


def _check_hypermodel(hypermodel, names):
    """Refuse a function that cannot be called with the hyperparameters and the terms."""
    is_model = isinstance(hypermodel, keras_tuner.HyperModel)
    # KerasTuner wraps the method of the object in one that takes any arguments.
    build = type(hypermodel).build if is_model else hypermodel
    try:
        signature = inspect.signature(build)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*([None] * (1 + is_model)), *names)
    except TypeError as error:
        given = f"{getattr(build, '__name__', 'hypermodel')}{signature}"
        raise ValueError(
            "The hypermodel must take the hyperparameters and a term for each grammar: "
            f"build(hp, {', '.join(names)}). Received: {given}"
        ) from error
