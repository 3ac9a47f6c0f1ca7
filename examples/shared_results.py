"""Files of results that several processes may write to at the same time."""

import json

from experiments.xd.cifar10_report import Results


class SharedResults(Results):
    """The runs finished so far, perhaps by several processes.

    A subclass has `page` and `draw`, as of `Results`.

    Args:
        name: name of the files, without their endings.
        folder, settings, overwrite: as of `Results`.
    """

    def __init__(self, name, folder, settings, overwrite=False):
        self.name = name
        super().__init__(folder, settings, overwrite)
        if overwrite:
            self.paths["json"].unlink(missing_ok=True)

    def read(self):
        """Take over the runs that other processes have finished meanwhile."""
        if self.paths["json"].exists():
            for run in json.loads(self.paths["json"].read_text())["runs"]:
                if self.find(run["method"], run["kind"], run["seed"]) is None:
                    self.runs.append(run)

    def add(self, record):
        """Keep a finished run beside those of other processes."""
        self.runs.append(record)
        self.read()
        self.save()
