"""The job of several processes: KerasTuner's chief and two workers, one of which is killed."""

import json
import os
import signal
import time
import types

from keras_tuner.src.distribute import oracle_chief

from keras_xd_tests import programs
from keras_xd_tests.faults import checks, searching
from tuner_integration import GrammarTuner

TRIALS = 8
ROLES = ("chief", "tuner0", "tuner1")
_LONGEST = 100.0
_AFTER_THE_CHIEF = 5.0
_STEP = 0.01


class Computing(GrammarTuner):
    """Computes a function of the term, which takes as long as a short training."""

    notes = None

    def run_trial(self, trial, **options):
        note(self.notes, f"begin {trial.trial_id}")
        time.sleep(0.2)
        rate = trial.hyperparameters.Float("rate", 0.0, 1.0)
        return {"val_loss": trial.hyperparameters.get("network").count("relu") + rate}

    def on_trial_end(self, trial):
        super().on_trial_end(trial)
        note(self.notes, f"done {trial.trial_id}")


def note(path, text):
    """Append a line, all of it or nothing."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{text}\n")


def work(folder, role, port):
    """Be the chief or a worker."""
    os.environ |= {
        "KERASTUNER_TUNER_ID": role,
        "KERASTUNER_ORACLE_IP": "127.0.0.1",
        "KERASTUNER_ORACLE_PORT": str(port),
    }
    # The chief asks every 20 seconds whether all have ended.
    oracle_chief.time = types.SimpleNamespace(sleep=lambda seconds: time.sleep(0.1))
    tuner = Computing(searching.oracle(TRIALS), directory=folder, project_name="search")
    tuner.notes = folder / "notes.txt"
    tuner.search(verbose=0)


class Workers:
    """A search of a chief and two workers; any of the three is killed.

    Without the chief the workers cannot go on: they are ended too, and all three begin again.
    """

    name = "chief and workers"
    victims = ROLES

    def run(self, folder, victim=None, after=0.0):
        """Search, kill one process some seconds after the first trial begins, begin it again.

        Raises:
            RuntimeError: one of the processes failed; the others are ended then.
        """
        self.errors = os.pipe()
        running = self.start(folder, ROLES)
        while not (folder / "notes.txt").exists():
            self.look(running)
            time.sleep(_STEP)
        print("start", flush=True)
        found = {"killed": 0, "left": 0, "findings": []}
        if victim is not None:
            time.sleep(after)
            found = self.kill(folder, running, victim)
        found["findings"] += self.end(running)
        found["findings"] += self.repeated(folder)
        trials = searching.trials_in(folder)
        state = json.loads((folder / "search" / "oracle.json").read_text())
        statuses = sorted(trial["status"] for trial in trials.values())
        for end in self.errors:
            os.close(end)
        return {**found, "statuses": statuses, "ended": sorted(state["end_order"])}

    def start(self, folder, roles, port=None):
        """Start processes; return a dictionary from roles to their ids, and the port as one."""
        port = port or programs.free_ports(1)[0]
        running = {"port": port}
        for role in roles:
            child = os.fork()
            if not child:
                status = 1
                try:
                    work(folder, role, port)
                    status = 0
                except BaseException as error:  # to be told in the end
                    os.write(self.errors[1], f"{role}: {type(error).__name__}: {error}\n".encode())
                finally:
                    os._exit(status)
            running[role] = child
        return running

    def kill(self, folder, running, victim):
        """Kill a process and look at the disk, then begin what cannot go on again."""
        roles = ROLES if victim == "chief" else (victim,)
        self.look(running)
        if victim not in running:  # it has ended before the moment came
            return {"killed": 0, "left": 0, "findings": []}
        for role in [role for role in roles if role in running]:
            os.kill(running[role], signal.SIGKILL)
            os.waitpid(running.pop(role), 0)
        findings = [*checks.half_written(folder), *self.check(folder, (), ())]
        left = len(checks.leftovers(folder))
        note(folder / "notes.txt", f"killed {victim}")
        port = None if victim == "chief" else running["port"]
        running |= self.start(folder, roles, port)
        return {"killed": 1, "left": left, "findings": findings}

    def check(self, folder, before, reference):
        """Return what is wrong on the disk after a kill."""
        return searching.lost(folder, searching.of_kind(_lines(folder), "done"))

    def end(self, running):
        """Wait for the end of all; return what is wrong with it."""
        limit = time.monotonic() + _LONGEST
        while len(running) > 1 and time.monotonic() < limit:
            self.look(running)
            if "chief" not in running and len(running) > 1:
                # One that was killed when it was told that the search had ended waits for ever.
                limit = min(limit, time.monotonic() + _AFTER_THE_CHIEF)
            time.sleep(_STEP)
        late = [role for role in running if role != "port"]
        self.stop(running)
        return [f"{role} does not end" for role in late if "chief" in late]

    def look(self, running):
        """Take those out that have ended; stop all and raise an error if one failed."""
        for role, child in list(running.items()):
            if role == "port":
                continue
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                del running[role]
            if found and status:
                self.stop(running)
                os.set_blocking(self.errors[0], False)
                try:
                    said = os.read(self.errors[0], 1 << 16).decode(errors="replace")
                except BlockingIOError:
                    said = f"{role} ends with {os.waitstatus_to_exitcode(status)}"
                raise RuntimeError(said)

    def stop(self, running):
        """End all processes that still run."""
        for role in [role for role in running if role != "port"]:
            child = running.pop(role)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def repeated(self, folder):
        """Return a text for each finished trial that began again."""
        done, findings = set(), []
        for line in _lines(folder):
            kind, _, name = line.partition(" ")
            if kind == "done":
                done.add(name)
            elif kind == "begin" and name in done:
                findings.append(f"trial {name} was finished and ran again")
        return findings


def _lines(folder):
    path = folder / "notes.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
